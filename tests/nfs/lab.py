"""The machines of the lab: User-mode Linux guests on bridges of a network namespace.

Knows how to start, cut, freeze and kill guests and how to run commands in them. Knows nothing of
Corral. Must run as root in namespaces of its own (tests/nfs/run makes them), which end with it.
"""
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MEMORY = os.environ.get("CORRAL_NFS_MEMORY", "256M")
MOUNT = "vers=4.2,hard"
EXPORT = "rw,sync,root_squash,no_subtree_check"
FREEZERS = [Path("/sys/fs/cgroup/freezer"), Path("/sys/fs/cgroup")]


class Failed(Exception):
    """A scenario did not see what it must see."""


def need(what, message):
    """Fails the scenario unless `what` holds."""
    if not what:
        raise Failed(message)


def until(limit, what, message, pause=0.5):
    """Waits until `what()` gives something true, and gives it back."""
    end = time.monotonic() + limit
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"not within {limit} s: {message() if callable(message) else message}")
        time.sleep(pause)


def tool(*words):
    subprocess.run([str(w) for w in words], check=True)


class Guest:
    """One machine. Its disk survives a kill, as a disk does."""

    def __init__(self, lab, name, number):
        self.lab, self.name, self.number = lab, name, number
        self.dir = lab.run / name
        self.process = None
        self.settings = {}

    def boot(self, **settings):
        """Starts it; `settings` become its lab_* variables and stay for later boots."""
        self.settings.update(settings)
        self.dir.mkdir(parents=True, exist_ok=True)
        for kind, bridge in (("d", "data"), ("m", "manage")):
            tap = f"{kind}-{self.name}"
            tool("ip", "tuntap", "add", "dev", tap, "mode", "tap")
            tool("ip", "link", "set", "dev", tap, "master", bridge, "up")
        variables = {
            "dir": self.lab.shared,
            "name": self.name,
            "number": self.number,
            "lease": self.lab.lease,
            "delegations": 0,
            "mount": MOUNT,
            "export": EXPORT,
            "old": "",
            "gather": "off",
            "recover": "",
        }
        variables.update(self.settings)
        words = [f"lab_{k}={v}" for k, v in variables.items()]
        for card, kind in enumerate("dm"):
            mac = f"02:c0:0{card}:00:00:{self.number:02x}"
            words.append(f"vec{card}:transport=tap,ifname={kind}-{self.name},depth=64,mac={mac}")
        words.append(f"ubd0={self.dir}/disk,{self.lab.image}")
        if self.number == 1:
            words.append(f"ubd1s={self.lab.run}/export.img")
        words += ["root=/dev/ubda", "rw", "init=/sbin/lab-first", f"mem={MEMORY}"]
        words += [f"umid={self.name}", f"uml_dir={self.dir}/", "noreboot", "panic=1", "quiet"]
        words += ["con=null", "con0=null,fd:1", "ssl=null"]
        env = dict(os.environ, LD_PRELOAD=str(self.lab.shim), TMPDIR="/dev/shm")
        own_pids = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        # The shell is the first process of the guest's pid namespace and reaps what it leaves.
        shell = ["sh", "-c", '"$@" & wait', "sh", "linux.uml"]
        with open(self.dir / "console", "ab") as console:
            self.process = subprocess.Popen(
                own_pids + shell + words,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env=env,
                preexec_fn=self.enter_freezer,
                start_new_session=True,
            )

    def freezer(self):
        for base in FREEZERS:
            if (base / "tasks").exists() or (base / "cgroup.controllers").exists():
                return base / f"corral-nfs-{self.lab.tag}-{self.name}"
        return None

    def inherit_niceness(self):
        """A guest makes a session of its own, with which the niceness of who runs the lab is gone:
        it is set again once the guest runs."""
        group = self.freezer()
        pids = (group / "cgroup.procs").read_text().split() if group else []
        for pid in pids:
            try:
                Path(f"/proc/{pid}/autogroup").write_text(self.lab.nice)
            except OSError:
                continue  # It has ended meanwhile, or there are no such groups.

    def enter_freezer(self):
        """In the child: its own freezer."""
        group = self.freezer()
        if group:
            group.mkdir(exist_ok=True)
            (group / "cgroup.procs").write_text("0")

    def wait_up(self, limit=120):
        until(limit, lambda: self.sh("true", limit=5, patient=False)[0] == 0, f"{self.name} up")
        self.inherit_niceness()
        if self.number != 1:
            mounted = lambda: self.sh("mountpoint -q /nfs", limit=5)[0] == 0
            until(limit, mounted, f"{self.name} mounts /nfs")

    def sh(self, cmd, uid=0, limit=60, patient=True):
        """Runs a command; gives its exit status (124: over its limit) and its output."""
        request = json.dumps({"cmd": cmd, "uid": uid, "limit": limit}).encode() + b"\n"
        end = time.monotonic() + (20 if patient else 0)
        while True:
            try:
                address = (f"10.99.1.{self.number}", 7000)
                with socket.create_connection(address, timeout=2) as conn:
                    conn.settimeout(limit + 60)
                    conn.sendall(request)
                    answer = b"".join(iter(lambda: conn.recv(1 << 16), b""))
                if answer:
                    reply = json.loads(answer)
                    return reply["rc"], reply["out"]
            except OSError as error:
                if time.monotonic() > end:
                    return 125, f"{self.name}: {error}"
            if time.monotonic() > end:
                return 125, f"{self.name} gave no answer"
            time.sleep(0.1)

    def ok(self, cmd, uid=0, limit=60):
        """Runs a command that must succeed; gives its output."""
        rc, out = self.sh(cmd, uid, limit)
        need(rc == 0, f"{self.name}: {cmd}: exit {rc}: {out[-500:]}")
        return out

    def start(self, cmd, uid=0):
        """Starts a command that goes on by itself."""
        self.ok(f"setsid sh -c '{cmd}' </dev/null >/dev/null 2>&1 &", uid)

    def clock(self):
        """How far its wall clock is ahead of this machine's, in seconds: the answer that came
        back fastest says it best."""
        asked = []
        for _ in range(10):
            before = time.time()
            there = float(self.ok(None))
            after = time.time()
            asked.append((after - before, there - (before + after) / 2))
        return min(asked)[1]

    def cut(self):
        """No packet reaches it or leaves it, but for this program's."""
        tool("bridge", "link", "set", "dev", f"d-{self.name}", "state", "0")

    def heal(self):
        tool("bridge", "link", "set", "dev", f"d-{self.name}", "state", "3")

    def apart(self, on):
        """With `on`, it can reach no other machine of which the same was said."""
        tool("bridge", "link", "set", "dev", f"d-{self.name}", "isolated", "on" if on else "off")

    def freeze(self):
        self.set_frozen("FROZEN", "1")

    def thaw(self):
        self.set_frozen("THAWED", "0")

    def set_frozen(self, v1, v2):
        group = self.freezer()
        if (group / "freezer.state").exists():
            (group / "freezer.state").write_text(v1)
            done = lambda: (group / "freezer.state").read_text().strip() == v1
        else:
            (group / "cgroup.freeze").write_text(v2)
            done = lambda: f"frozen {v2}" in (group / "cgroup.events").read_text()
        until(10, done, f"{self.name} {v1}", 0.02)

    def kill(self):
        """Power loss: nothing that was not on its disk stays."""
        if not self.process:
            return
        group = self.freezer()
        if group and group.exists():
            self.thaw()
        # The pid namespace goes with its parent, and with it every process of the guest.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
        if group and group.exists():
            procs = group / "cgroup.procs"
            until(20, lambda: not procs.read_text().strip(), f"{self.name} gone", 0.05)
            group.rmdir()
        for kind in "dm":
            subprocess.run(["ip", "link", "del", f"{kind}-{self.name}"], check=False)


class Lab:
    """A file server and `clients` guests."""

    def __init__(self, home, clients=3, lease=10):
        self.home, self.lease = Path(home), lease
        self.image, self.shim = self.home / "root.ext4", self.home / "xsave.so"
        self.shared, self.run = self.home / "shared", self.home / "run"
        self.tag = os.environ.get("CORRAL_NFS_TAG", "0")
        group = Path("/proc/self/autogroup")
        self.nice = group.read_text().split()[-1] if group.exists() else "0"
        self.server = Guest(self, "server", 1)
        self.clients = [Guest(self, f"c{n}", 10 + n) for n in range(1, clients + 1)]
        self.guests = [self.server] + self.clients

    def network(self):
        """Once for the life of the namespace."""
        tool("ip", "link", "set", "lo", "up")
        for bridge in ("data", "manage"):
            tool("ip", "link", "add", "dev", bridge, "type", "bridge")
            tool("ip", "link", "set", "dev", bridge, "up")
        tool("ip", "addr", "add", "10.99.1.254/24", "dev", "manage")

    def up(self, machines):
        """Machines with fresh disks and an empty export; `machines`: settings by name."""
        subprocess.run(["rm", "-rf", str(self.run)], check=True)
        self.run.mkdir(parents=True)
        export = self.run / "export.img"
        with open(export, "wb") as f:
            f.truncate(2 << 30)
        tool("mke2fs", "-q", "-t", "ext4", export)
        for guest in self.guests:
            guest.settings = dict(machines.get(guest.name, {}))
        self.server.boot()
        self.server.wait_up()
        for guest in self.clients:
            guest.boot()
        for guest in self.clients:
            guest.wait_up()

    def copy_export(self, name):
        """Keeps a copy of what the server's disk holds now."""
        self.server.ok("sync; fsfreeze -f /export")
        try:
            image = self.run / "export.img"
            tool("cp", "--sparse=always", image, self.run / f"export.{name}")
        finally:
            self.server.ok("fsfreeze -u /export")

    def restore_export(self, name):
        """Power loss of the server, which comes back with the disk that this copy was made of.
        The copy can be used once."""
        self.server.kill()
        (self.run / f"export.{name}").rename(self.run / "export.img")
        self.server.boot()
        self.server.wait_up()

    def down(self):
        for guest in self.guests:
            guest.kill()
