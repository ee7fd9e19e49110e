"""Corral on the guests of the lab: the cluster, its daemons, its load, the reading of its files.

Reads journals and tasks logs with a reader of its own, so that the product is not judged by itself.
"""
import json
import os
import time
from collections import Counter, defaultdict

from lab import Failed, need, until

JOBS = int(os.environ.get("CORRAL_NFS_JOBS", "1000"))
SHARE = "/export/corral"
DAEMONS = ("cbls", "cbexe", "cbsched")
SERVICE = 900
USERS = {"c1": 1001, "c2": 1002, "c3": 1003}

CONFIG = """\
cluster:
  name: lab
  administrators: [corral, root]
  masters: c1 c2 c3
  lease_timeout: {takeover}
  allow_root_jobs: no
general:
  iso_timeout: {iso}
  container_runtime: bubblewrap
hosts:
- {{name: c1, slots: {slots}}}
- {{name: c2, slots: {slots}}}
- {{name: c3, slots: {slots}}}
{more}queues:
- {{name: normal}}
- {{name: again, rerunnable: yes}}
"""


def records(text, numbered=True):
    """The records of a file: dictionaries, up to the first line that is not whole. Logs of tasks
    have many writers, and no numbers."""
    out = []
    for line in text.split("\n"):
        body = line[2:].rsplit(" #", 1)
        if not line.startswith("- {") or len(body) != 2:
            break
        number, length, _ = body[1].split(" ")
        if numbered and int(number) != len(out) or int(length) != len(body[0].encode()):
            break
        out.append(json.loads(body[0]))
    return out


def key(record):
    """Job and index that a record is about: 7 or 7[3]."""
    return str(record.get("j") or record.get("id"))


class Cluster:
    def __init__(self, lab):
        self.lab, self.server, self.hosts = lab, lab.server, lab.clients

    def up(self, takeover="5s", iso="0", slots=4, daemons=True, listed=0):
        """Makes the cluster on the export and starts every daemon as root. `listed`: so many hosts
        more in cb.yaml, each with its directory and without daemons."""
        first = self.hosts[0]
        for host in self.hosts:
            conf = "CB_SHARE=/nfs/corral\\nCB_LOCAL=/var/lib/corral\\n"
            host.ok(f"mkdir -p /etc/corral && printf '{conf}' > /etc/corral/cb.conf; sync")
        more = f"- {{names: 'x[1-{listed}]', slots: 4}}\n" if listed else ""
        text = CONFIG.format(takeover=takeover, iso=iso, slots=slots, more=more)
        (self.lab.shared / "cb.yaml").write_text(text)
        made = "cadmin init --name lab --config /lab/cb.yaml /nfs/corral"
        first.ok(f"mkdir -m 1777 /nfs/marks && {made}", SERVICE)
        if listed:
            made = f"cd {SHARE}/hosts && for n in $(seq {listed}); do echo x$n; done | xargs mkdir"
            self.server.ok(made, SERVICE, limit=120)
        if daemons:
            for host in self.hosts:
                self.start(host)
            self.wait_ready()

    def start(self, host, names=DAEMONS):
        for name in names:
            host.start(f"/lab/guest/keep {name}")

    def stop(self, host, names=DAEMONS):
        for name in names:
            host.sh(f"rm -f /run/{name}.keep; pkill -9 -x {name}")

    def away(self):
        """Takes the cluster off all machines again, and the mount with what it remembers."""
        for host in self.hosts:
            self.stop(host)
            host.sh("pkill -9 -x cbtask; rm -f /var/log/cb*.log /var/log/acked.* /var/log/said.*")
        for host in self.hosts:
            host.ok("rm -rf /var/lib/corral; umount -l /nfs")
        self.server.ok(f"rm -rf {SHARE} /export/marks", limit=120)
        for host in self.hosts:
            host.ok("mount -t nfs -o vers=4.2,hard 10.99.0.1:/export /nfs")

    def wait_ready(self, limit=180):
        """Until a leader says that all hosts are usable."""

        def ready():
            rc, out = self.hosts[0].sh("chosts -w 2>&1", limit=30)
            return rc == 0 and sum(" ok " in line for line in out.split("\n")) == len(self.hosts)

        until(limit, ready, "all hosts ok", 1)

    def leader(self):
        """The host whose epoch is the present one."""
        text = self.server.ok(f"cat {SHARE}/leader/epoch")
        name = json.loads(text[: text.rindex("}") + 1])["host"]
        return next((h for h in self.hosts if h.name == name), None)

    def epoch(self):
        text = self.server.ok(f"cat {SHARE}/leader/epoch")
        return json.loads(text[: text.rindex("}") + 1])["epoch"]

    def leading(self):
        """Epoch of the leader that takes requests, or None."""
        text = self.server.ok(f"cat {SHARE}/leader/beat")
        beat = json.loads(text[: text.rindex("}") + 1])
        return beat["epoch"] if beat["leading"] else None

    def wait_leader(self, above, limit=120):
        """Until a leader of a higher epoch leads."""
        until(limit, lambda: (self.leading() or 0) > above, f"a leader above epoch {above}")
        return self.leader()

    def others(self, host):
        return [h for h in self.hosts if h is not host]

    # Load.

    def submit(self, hosts, seconds="0.5"):
        for host in hosts:
            host.ok("rm -f /run/submit.stop")
            stamp = int(time.time())
            user = USERS[host.name]
            host.ok(f"touch /var/log/acked.{host.name}; chmod 777 /var/log")
            host.start(f"/lab/guest/submit {host.name}.{stamp} {seconds}", user)

    def stop_submitting(self, hosts=None):
        for host in hosts or self.hosts:
            host.sh("touch /run/submit.stop")
        for host in hosts or self.hosts:
            gone = lambda: host.sh("pgrep -f [g]uest/submit", limit=20)[0] == 1
            until(300, gone, f"{host.name} stops submitting", 1)

    def acked(self, host):
        """Ids that people on this host were told."""
        rc, out = host.sh("cat /var/log/acked.*", limit=30)
        return [line for line in out.split() if line.isdigit()] if rc == 0 else []

    def wait_acked(self, number, hosts=None, limit=900):
        """Until people on these hosts were told of so many jobs."""
        count = lambda: sum(len(self.acked(h)) for h in hosts or self.hosts)
        until(limit, lambda: count() >= number, lambda: f"{count()} of {number} accepted", 2)

    # What is on the disks.

    def journal(self):
        """Events that exist: (epoch, event), seals applied."""
        names = self.server.ok(f"cd {SHARE}/epoch && ls */journal.*.yaml").split()
        epochs = defaultdict(dict)
        for name in names:
            epoch, file = name.split("/")
            epochs[int(epoch)][int(file.split(".")[1])] = name
        seals, found = {}, []
        for epoch in sorted(epochs, reverse=True):
            own = []
            segments = epochs[epoch]
            end = seals.get(epoch)
            for number in sorted(segments, reverse=True):
                if end and number > end[0]:
                    continue
                text = self.server.ok(f"cat {SHARE}/epoch/{segments[number]}", limit=120)
                if end and number == end[0]:
                    text = text.encode()[: end[1]].decode("utf-8", "replace")
                events = [e for e in records(text) if e["k"] != "header"]
                for event in events:
                    if event["k"] == "seal":
                        place = (event["segment"], event["bytes"])
                        if event["epoch"] == epoch:
                            end = place
                        else:
                            seals.setdefault(event["epoch"], place)
                own = [(epoch, e) for e in events] + own
            found = own + found
        return found

    def tasks(self, host):
        """Records of the host's own logs of tasks."""
        rc, out = host.sh("for f in /var/lib/corral/tasks.*.log; do cat $f; echo; echo ==; done")
        return [r for part in out.split("\n==\n") for r in records(part, False)] if rc == 0 else []

    def settle(self, limit=900):
        """Waits until every job known to the journal has ended; gives events."""
        state = {}

        def over():
            events = self.journal()
            state["events"], state["open"] = events, open_jobs(events)
            return not state["open"]

        until(limit, over, lambda: f"{len(state['open'])} jobs open: {state['open'][:5]}", 5)
        return state["events"]

    def settle_array(self, array, limit=300):
        """Waits until no element of the array runs or waits."""
        said = "cjobs -noheader -o stat -r -p -s " + array

        def over():
            rc, out = self.hosts[0].sh(f"{said} 2>&1", 1001, limit=30)
            return "RUN" not in out and "PEND" not in out and rc != 124

        until(limit, over, f"array {array} ends", 3)

    def judge(self, acked, rerun=False):
        """Holds what happened against what people were told; figures as text."""
        events = self.settle()
        marks = defaultdict(list)
        for name in self.server.ok("ls /export/marks", limit=120).split():
            job, index, attempt, host, _ = name.split(".")
            marks[job].append((int(attempt), host))
        submitted = Counter(str(e["id"]) for _, e in events if e["k"] == "submitted")
        ends, codes = Counter(), {}
        for _, e in events:
            if (e["k"] == "ended" and not e.get("requeue")) or e["k"] == "cancelled":
                ends[key(e)] += 1
                codes[key(e)] = (e.get("code"), e.get("reason"))
        twice = [i for i, n in Counter(acked).items() if n > 1]
        need(not twice, f"an id was given to two requests: {twice[:5]}")
        lost = [i for i in acked if submitted[i] != 1]
        need(not lost, f"accepted and not known: {lost[:5]}")
        wrong = [i for i in submitted if ends[i] != 1]
        need(not wrong, f"not ended exactly once: {[(i, ends[i]) for i in wrong[:5]]}")
        for job, seen in marks.items():
            attempts = Counter(attempt for attempt, _ in seen)
            need(max(attempts.values()) == 1, f"job {job}: an attempt ran twice: {seen}")
            need(rerun or len(seen) == 1, f"job {job} ran more than once: {seen}")
        done = [i for i, (code, _) in codes.items() if code == 0]
        idle = [i for i in done if i not in marks]
        need(not idle, f"done, but never ran: {idle[:5]}")
        bound = {(key(e), e["at"]): e["hosts"][0][0] for _, e in events if e["k"] == "dispatched"}
        starts = 0
        for host in self.hosts:
            for r in self.tasks(host):
                if r["k"] == "start":
                    starts += 1
                    where = bound.get((key(r), r["at"]))
                    need(where == host.name, f"{host.name} started {key(r)}, bound to {where}")
        why = Counter(reason for code, reason in codes.values() if code != 0)
        rest = "".join(f", {n} {reason}" for reason, n in sorted(why.items(), key=str))
        figures = f"accepted={len(acked)} jobs={len(submitted)} done={len(done)}{rest}"
        return f"{figures} starts_checked={starts}"


def open_jobs(events):
    """Jobs of the journal without a final end."""
    open_ = {}
    for _, e in events:
        if e["k"] == "submitted":
            open_[str(e["id"])] = True
        elif e["k"] == "cancelled" or (e["k"] == "ended" and not e.get("requeue")):
            open_.pop(key(e), None)
    return list(open_)


__all__ = ["Cluster", "Failed", "JOBS", "SERVICE", "SHARE", "USERS", "key", "need", "until"]
