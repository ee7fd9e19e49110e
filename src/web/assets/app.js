// Additions to the pages, all of which work without it: login by the link's fragment, lists that
// update themselves, logs that follow, a confirmation before jobs are killed.
"use strict";

function login(form) {
  const token = location.hash.slice(1);
  if (!token) return;
  // Removed from the history at once: the link is a secret.
  history.replaceState(null, "", location.pathname);
  form.elements.token.value = token;
  form.submit();
}

// The logs that are followed, with their event streams.
const streams = new Map();

// Moves what the reader has changed or follows from an old part to its new version: marks of
// check boxes, words that were typed, growing logs.
function carry(old, fresh) {
  const marked = [...old.querySelectorAll("input:checked")].map((box) => box.value);
  fresh.querySelectorAll("input[type=checkbox]").forEach((box) => { box.checked = marked.includes(box.value); });
  old.querySelectorAll("input:not([type=checkbox])").forEach((input) => {
    const next = fresh.querySelector(`input[name="${input.name}"]`);
    if (next && input.value !== input.defaultValue) next.value = input.value;
  });
  const logs = new Map([...old.querySelectorAll("[data-log]")].map((log) => [log.dataset.log, log]));
  fresh.querySelectorAll("[data-log]").forEach((log) => {
    if (!logs.has(log.dataset.log)) return;
    log.replaceWith(logs.get(log.dataset.log));
    logs.delete(log.dataset.log);
  });
  // The job has ended: its page has the whole end of the log.
  logs.forEach((log) => { streams.get(log)?.close(); streams.delete(log); });
}

function renewPart(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const focus = document.activeElement;
  const field = old.contains(focus) && focus !== old ? { name: focus.name, value: focus.value, at: focus.selectionStart } : null;
  const scrolled = [...old.querySelectorAll("[data-log]")].map((log) => [log, log.scrollTop]);
  carry(old, fresh);
  old.replaceChildren(...fresh.childNodes);
  scrolled.forEach(([log, top]) => { log.scrollTop = top; });
  if (field && field.name) {
    const same = (input) => input.name === field.name && input.value === field.value;
    const next = [...old.querySelectorAll("input")].find(same);
    next?.focus();
    if (next?.type === "text" && field.at !== null) next.setSelectionRange(field.at, field.at);
  }
  old.querySelectorAll("[data-log]").forEach(follow);
}

// Replaces the marked parts by those of the same name.
async function renew() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const parts = new Map([...page.querySelectorAll("[data-live]")].map((part) => [part.dataset.live, part]));
  document.querySelectorAll("[data-live]").forEach((old) => {
    const fresh = parts.get(old.dataset.live);
    if (fresh) renewPart(old, fresh);
  });
  document.dispatchEvent(new CustomEvent("renewed", { detail: page }));
}

function live() {
  let busy = false;
  let again = false;
  const run = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try { await renew(); } finally { busy = false; }
    if (again) { again = false; run(); }
  };
  new EventSource("/live/view").addEventListener("changed", () => {
    if (!document.hidden) run();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) run(); });
}

function follow(log) {
  if (streams.has(log)) return;
  const most = 262144;
  const atEnd = () => log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
  const put = (text) => {
    const stay = !atEnd();
    log.textContent = text.slice(-most);
    if (!stay) log.scrollTop = log.scrollHeight;
  };
  const source = new EventSource(log.dataset.log);
  streams.set(log, source);
  source.addEventListener("begin", (event) => put(event.data));
  source.addEventListener("more", (event) => put(log.textContent + event.data));
  source.addEventListener("end", () => source.close());
  log.scrollTop = log.scrollHeight;
}

const form = document.getElementById("login");
if (form) login(form);
if (document.querySelector("[data-live]")) live();
document.querySelectorAll("[data-log]").forEach(follow);
document.querySelectorAll("form[data-ask]").forEach((asking) => {
  asking.addEventListener("submit", (event) => {
    const act = event.submitter;
    if (!act || act.value === "resume") return;
    const text = asking.dataset.ask || document.body.dataset.confirm;
    if (!confirm(text.replace("{}", act.textContent))) event.preventDefault();
  });
});
