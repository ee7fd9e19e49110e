// The page of a terminal: xterm.js over a WebSocket. Keys are sent as binary messages in pieces;
// sizes and numbers of shown bytes as text, so that a shell with endless output waits for the page.
"use strict";

(() => {
  const ENDED = 4000;
  const TAKEN = 4001;
  const TOO_MUCH = 4002;
  const PIECE = 32768;
  const TRIES = 5;
  const box = document.getElementById("term");
  const state = document.getElementById("term-state");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const theme = () => ({
    background: colour("--back"), foreground: colour("--text"), cursor: colour("--text"),
    cursorAccent: colour("--back"), selectionBackground: colour("--line"),
  });
  const term = new Terminal({
    theme: theme(), screenReaderMode: true, scrollback: 5000, minimumContrastRatio: 4.5,
    fontFamily: "ui-monospace, 'DejaVu Sans Mono', 'Noto Sans Mono CJK SC', monospace", fontSize: 14, lineHeight: 1.2,
  });
  const fit = new FitAddon.FitAddon();
  term.loadAddon(fit);
  term.open(box);
  term.textarea.setAttribute("aria-label", box.dataset.label);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { term.options.theme = theme(); });

  let socket = null;
  let tries = 0;
  const say = (value) => {
    if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(value));
  };
  const size = () => {
    fit.fit();
    say({ size: [term.rows, term.cols] });
  };
  const type = (bytes) => {
    if (!socket || socket.readyState !== WebSocket.OPEN) return;
    for (let at = 0; at < bytes.length; at += PIECE) socket.send(bytes.subarray(at, at + PIECE));
  };
  const over = (text) => {
    state.textContent = text;
    term.options.disableStdin = true;
    term.options.cursorBlink = false;
  };

  function connect() {
    const place = new URL(box.dataset.place, location.href);
    place.protocol = place.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(place);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      // The portal sends the last output again.
      term.reset();
      state.textContent = "";
      tries = 0;
      size();
    });
    socket.addEventListener("message", (event) => {
      const bytes = new Uint8Array(event.data);
      term.write(bytes, () => say({ shown: bytes.length }));
    });
    socket.addEventListener("close", (event) => {
      if (event.code === ENDED) return over(box.dataset.closed);
      if (event.code === TAKEN) return over(box.dataset.taken);
      if (event.code === TOO_MUCH) return over(box.dataset.much);
      tries += 1;
      if (tries > TRIES) return over(box.dataset.lost);
      state.textContent = box.dataset.lost;
      setTimeout(connect, 1000 * tries);
    });
  }

  const encoder = new TextEncoder();
  term.onData((text) => type(encoder.encode(text)));
  term.onBinary((text) => type(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  let resizing = 0;
  new ResizeObserver(() => {
    clearTimeout(resizing);
    resizing = setTimeout(size, 100);
  }).observe(box);
  connect();
  term.focus();
})();
