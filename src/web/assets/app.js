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

// Replaces the marked parts, and keeps the selection and the focus in them.
async function renew() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.querySelectorAll("[data-live]");
  document.querySelectorAll("[data-live]").forEach((old, at) => {
    if (!fresh[at]) return;
    const focus = document.activeElement;
    const value = old.contains(focus) ? focus.value : null;
    const marked = [...old.querySelectorAll("input:checked")].map((box) => box.value);
    old.replaceChildren(...fresh[at].childNodes);
    old.querySelectorAll("input[type=checkbox]").forEach((box) => {
      box.checked = marked.includes(box.value);
      if (value !== null && box.value === value) box.focus();
    });
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
  const most = 262144;
  const atEnd = () => log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
  const put = (text) => {
    const stay = !atEnd();
    log.textContent = text.slice(-most);
    if (!stay) log.scrollTop = log.scrollHeight;
  };
  const source = new EventSource(log.dataset.log);
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
