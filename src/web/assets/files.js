// Uploads of the page of files: one part at a time, so that a large file needs little memory and an
// upload continues where it stopped.
"use strict";

const PART = 1 << 20;
const TRIES = 5;

// Whether this browser has begun to send the file: an upload continues only with the same file.
function known(key, file) {
  return localStorage.getItem(key) === `${file.size} ${file.lastModified}`;
}

async function ask(url, body) {
  const headers = { "x-csrf-token": document.body.dataset.csrf, "content-type": "application/octet-stream" };
  const answer = await fetch(url, body === undefined ? {} : { method: "POST", headers, body });
  const said = await answer.json();
  if (answer.ok) return said;
  const failure = new Error(said.detail || said.title);
  failure.status = answer.status;
  throw failure;
}

// As `ask`, but repeated after a pause if the connection fails.
async function patient(url, body) {
  for (let n = 1; ; n += 1) {
    try { return await ask(url, body); } catch (failure) {
      if (failure.status || n === TRIES) throw failure;
      await new Promise((done) => { setTimeout(done, 1000 * n); });
    }
  }
}

async function send(file, form, replace) {
  const path = form.dataset.upload;
  const place = `${path}${path.endsWith("path=") ? "" : "/"}${encodeURIComponent(file.name)}`;
  const url = `/api/v1/files/upload?${place}`;
  const key = `corral-upload ${place}`;
  const progress = form.querySelector("progress");
  let at = 0;
  if (known(key, file)) at = Math.min((await patient(url)).received, file.size);
  localStorage.setItem(key, `${file.size} ${file.lastModified}`);
  for (let gaps = 0; ;) {
    const part = file.slice(at, at + PART);
    const more = `&offset=${at}&size=${file.size}${replace ? "&replace=yes" : ""}`;
    const said = await patient(url + more, part);
    progress.value = file.size ? said.received / file.size : 1;
    if (said.done) break;
    if (!said.taken) gaps += 1;
    if (gaps > TRIES) throw new Error(form.dataset.failed);
    at = said.received >= file.size ? 0 : said.received;
  }
  localStorage.removeItem(key);
}

async function sendAll(form, files) {
  const say = form.querySelector("[role=status]");
  try {
    for (const file of files) {
      say.textContent = file.name;
      try { await send(file, form, false); } catch (failure) {
        if (failure.status !== 409 || !confirm(`${failure.message}\n${form.dataset.replace}`)) throw failure;
        await send(file, form, true);
      }
    }
    say.textContent = form.dataset.sent;
    location.reload();
  } catch (failure) {
    say.textContent = failure.message;
  }
}

document.querySelectorAll("[data-upload]").forEach((form) => {
  form.hidden = false;
  const input = form.querySelector("input");
  input.addEventListener("change", () => sendAll(form, [...input.files]));
});
