#!/usr/bin/env python3
"""The program of a job for tests of the portal: HTTP and a WebSocket of the standard library, a token that it
asks for, and the file that announces it. What it hears is written to the file of its first argument."""
import base64
import hashlib
import http.server
import json
import os
import secrets
import struct
import sys
import threading

HEARD = sys.argv[1]
TOKEN = secrets.token_hex(16)
PAGE = b"""<!doctype html><html lang="en"><title>program</title><h1>program</h1><p id="said">waiting</p>
<script>
const socket = new WebSocket(`ws://${location.host}/ws`);
socket.onopen = () => socket.send("over and back");
socket.onmessage = (event) => { document.getElementById("said").textContent = event.data; };
</script></html>"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def heard(self, body=b""):
        with open(HEARD, "a", encoding="utf-8") as file:
            file.write(f"{self.requestline}\n{self.headers}{body.decode()}\n")

    def give(self, status, body, kind="text/html", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def is_let_in(self):
        return f"program={TOKEN}" in (self.headers.get("Cookie") or "")

    def do_GET(self):
        self.heard()
        if self.path == f"/start?token={TOKEN}":
            return self.give(302, b"", Location=f"http://127.0.0.1:{self.server.server_port}/",
                             Set_Cookie=f"program={TOKEN}; Domain=localhost; Path=/; HttpOnly")
        if not self.is_let_in():
            return self.give(403, b"no token", "text/plain")
        origin = f"http://{self.headers['Host']}"
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.echo() if self.headers["Origin"] == origin else self.give(403, b"origin")
        return self.give(200, PAGE)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.heard()
        self.give(200 if self.is_let_in() else 403, body[::-1], "text/plain")

    def echo(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept",
                         base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                break
            size = head[1] & 127
            if size == 126:
                size = struct.unpack(">H", self.rfile.read(2))[0]
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[n % 4] for n, b in enumerate(self.rfile.read(size)))
            self.wfile.write(bytes([0x80 | head[0] & 15, len(data)]) + data)
        self.close_connection = True


def announce(port):
    place = os.environ.get("CB_CONNECT_DIR") or os.path.expanduser("~/.corral/connect")
    os.umask(0o077)
    os.makedirs(place, exist_ok=True)
    job, index = os.environ["CB_JOBID"], os.environ.get("CB_JOBINDEX", "0")
    name = f"{place}/{job}.{index}.json"
    with open(name + ".tmp", "w", encoding="utf-8") as file:
        json.dump({"job_id": int(job), "index": int(index), "kind": "program", "host": os.uname()[1],
                   "port": port, "bind": "127.0.0.1", "token": TOKEN,
                   "url": f"http://{os.uname()[1]}:{port}/start?token={TOKEN}"}, file)
    os.rename(name + ".tmp", name)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
announce(server.server_port)
print("announced", flush=True)
threading.Timer(600, server.shutdown).start()
server.serve_forever()
