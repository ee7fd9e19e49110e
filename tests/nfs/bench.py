"""Measures Corral on the lab; tests/nfs/bench runs it and explains what it prints."""
import argparse
import json
import os
import re
import statistics
import sys
import time
from datetime import datetime

from cluster import USERS, Cluster, key
from counts import APART, Span, mount_apart
from lab import Failed, Lab, need, until
from scenario import log, now, submit

SAMPLES = int(os.environ.get("CORRAL_NFS_SAMPLES", "30"))
ELEMENTS = int(os.environ.get("CORRAL_NFS_ELEMENTS", "300"))
IDLE = float(os.environ.get("CORRAL_NFS_IDLE", "40"))
KILLS = int(os.environ.get("CORRAL_NFS_KILLS", "10"))
LISTED = [int(n) for n in os.environ.get("CORRAL_NFS_LISTED", "0 1000").split()]
# The time without a beat after which a leader is taken over: as delivered, and the least.
CALM, QUICK = "15s", "3s"

PARTS = {}


def part(takeover=CALM):
    """Registers a part: a function that is given a Round and prints lines."""

    def add(function):
        PARTS[function.__name__] = (function, takeover)
        return function

    return add


def pick(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


class Round:
    """One cluster, and what the bare operations of its guests take."""

    def __init__(self, cluster, listed):
        self.c, self.listed, self.bare = cluster, listed, {}

    def line(self, name, value, unit, of=None, limit=None):
        row = {"name": name, "hosts": 3 + self.listed, "value": round(value, 3), "unit": unit}
        if of:
            row.update({"of": of, "limit": round(limit, 3), "ratio": round(value / limit, 2)})
        row["load"] = round(os.getloadavg()[0], 1)
        print(json.dumps(row), flush=True)

    def times(self, name, values, of=None):
        """Half and 99th percentile in ms, beside a bare operation's of the same guests."""
        for percent in (50, 99):
            limit = self.bare.get(of, {}).get(percent)
            value = pick(values, percent) * 1000
            self.line(f"{name}_p{percent}", value, "ms", of if limit else None, limit)
        return values

    def measure(self, host, words, uid=None, limit=300):
        uid = USERS[host.name] if uid is None else uid
        return json.loads(host.ok(f"{self.env(host)}/lab/guest/measure {words}", uid, limit))

    def env(self, host):
        """Commands use a mount of their own, whose operations are theirs alone."""
        return mount_apart(host) + " "

    def wait_done(self, jobs, limit=300):
        """Until the hosts' logs know the ends of these jobs; gives start and end of each."""

        def over():
            seen = {}
            for host in self.c.hosts:
                ahead = host.clock()
                for r in self.c.tasks(host):
                    if r["k"] in ("start", "end"):
                        times = seen.setdefault(key(r), {"host": host})
                        times[r["k"]] = r["t"] / 1000 - ahead
            found = {j: seen[j] for j in jobs if "end" in seen.get(j, {})}
            return found if len(found) == len(jobs) else None

        return until(limit, over, f"{len(jobs)} jobs end", 1)


@part()
def raw(r):
    """What the share and a guest do without Corral; the other parts' limits."""
    first, other = r.c.hosts[0], r.c.hosts[1]
    said = r.measure(first, f"raw /nfs/marks {SAMPLES * 3}")
    for name, what in (("create", "create_rename"), ("append", "append_fsync")):
        r.bare[what] = {p: pick(said[name], p) * 1000 for p in (50, 99)}
        r.times(what, said[name])
    r.line("bulk_write", 4 * 1.048576 / statistics.median(said["bulk"]), "MB/s")
    read = "f=$(ls /nfs/marks/*.bulk | head -1); dd if=$f of=/dev/null bs=1M 2>&1 | tail -1"
    rate = re.search(r"([\d.]+) s, ", other.ok(read))
    r.line("bulk_read", 4 * 1.048576 / float(rate.group(1)), "MB/s")
    program_start(r)
    r.bare["starts"] = r.measure(first, f"bare {ELEMENTS}")["rate"]
    r.line("bare_starts", r.bare["starts"], "1/s")


def program_start(r):
    """What the smallest command takes in a guest: it reads nothing of the share."""
    if "csub -V" not in r.bare:
        said = r.measure(r.c.hosts[1], f"times {SAMPLES} 0.05 csub -V")
        took = [one["took"] for one in said]
        r.times("program_start", took)
        r.bare["csub -V"] = {p: pick(took, p) * 1000 for p in (50, 99)}


def rate(r, name, ops, seconds, bound):
    r.line(name, ops / seconds, "ops/s", "bound", bound)


def watch_idle(r, prefix):
    """Operations of an idle cluster, by role, and then those of cbls and cbexe by themselves. The
    third host has no candidate; in the second span its cbls goes over a mount of its own, which
    asks for directories that both use once more."""
    c = r.c
    bare = c.hosts[2]
    span = idle_span(c, bare, "")
    leader = c.leader()
    standby = next(h for h in c.others(bare) if h is not leader)
    s = span.seconds
    # Both are hosts, too.
    host = span.of(bare)
    rate(r, f"{prefix}_leader", span.of(leader) - host, s, 10)
    rate(r, f"{prefix}_standby", span.of(standby) - host, s, 2)
    rate(r, f"{prefix}_host", host, s, 1)
    r.line(f"{prefix}_server", span.total / s, "ops/s")
    show_by_machine(r, span, s)
    span = idle_span(c, bare, mount_apart(bare))
    r.line(f"{prefix}_cbls", span.of(bare, APART) / span.seconds, "ops/s")
    r.line(f"{prefix}_cbexe", span.of(bare) / span.seconds, "ops/s")
    c.stop(bare)
    c.start(bare)
    c.wait_ready()


def idle_span(c, bare, env):
    """A span of an idle cluster where one host has no candidate and `env` for its cbls."""
    c.stop(bare)
    until(120, lambda: c.leading() == c.epoch() and c.leader() is not bare, "another host leads")
    bare.start(f"{env} /lab/guest/keep cbls")
    bare.start("/lab/guest/keep cbexe")
    c.wait_ready()
    time.sleep(20)
    span = Span(c)
    time.sleep(IDLE)
    return span.close()


@part()
def idle(r):
    """Operations a second while nothing happens: leader, standby, host (cbls, cbexe)."""
    watch_idle(r, "idle")


@part(QUICK)
def idle_quick(r):
    """The same with the shortest takeover time."""
    watch_idle(r, "idle_t3")


def idle_rate(r, seconds=10):
    """Operations a second of the cluster as it stands, without work."""
    time.sleep(8)
    span = Span(r.c)
    time.sleep(seconds)
    span.close()
    return span.total / span.seconds


@part()
def csub(r):
    """How long csub takes on an idle cluster, and what it asks the server for."""
    program_start(r)
    host = r.c.others(r.c.leader())[0]
    r.measure(host, "times 2 0.5 csub -o /dev/null true")
    span = Span(r.c)
    said = r.measure(host, f"times {SAMPLES} 0.7 csub -o /dev/null true")
    span.close()
    wrong = [one for one in said if not one["job"]]
    need(not wrong, f"csub failed: {wrong[:1]}")
    r.times("csub", [one["took"] for one in said], "csub -V")
    r.line("csub_ops", span.of(host, APART) / SAMPLES, "ops", "bound", 12)
    show("csub", span.kinds[host.name][APART], SAMPLES)


@part()
def start(r):
    """From the call of csub to the start of the job, on a host that does not lead."""
    program_start(r)
    host, target = r.c.others(r.c.leader())
    ahead = host.clock()
    said = r.measure(host, f"times {SAMPLES} 0.7 csub -m {target.name} -o /dev/null true")
    ran = r.wait_done([one["job"] for one in said])
    r.times("start", [ran[one["job"]]["start"] - (one["at"] - ahead) for one in said], "csub -V")


@part()
def done(r):
    """From the end of a job to the end of the first cjobs that shows it."""
    program_start(r)
    host, target = r.c.others(r.c.leader())
    words = f"done {max(5, SAMPLES // 2)} csub -m {target.name} -o /dev/null sleep 1"
    ahead = host.clock()
    said = r.measure(host, words)
    ran = r.wait_done([one["job"] for one in said])
    late = [one["shown"] - ahead - ran[one["job"]]["end"] for one in said]
    r.times("done_shown", late, "csub -V")


@part()
def separate(r):
    """Operations of the whole cluster for one job, of many submitted one by one from each host."""
    for host in r.c.hosts:
        r.measure(host, "times 2 0 csub -o /dev/null true")
    idle_ops = idle_rate(r)
    span, jobs = Span(r.c), []
    for host in r.c.hosts:
        jobs += r.measure(host, f"times {SAMPLES} 0 csub -o /dev/null true")
    ran = r.wait_done([one["job"] for one in jobs])
    span.close()
    r.line("separate_ops", span.total / len(jobs), "ops", "bound", 25)
    net = span.total - idle_ops * span.seconds
    r.line("separate_ops_net", net / len(jobs), "ops", "bound", 25)
    show_by_machine(r, span, len(jobs))
    need(len(ran) == len(jobs), "not all ran")


@part()
def array(r):
    """An array of short elements: how many end a second, and what one asks the server for."""
    if "starts" not in r.bare:
        r.bare["starts"] = r.measure(r.c.hosts[0], f"bare {ELEMENTS}")["rate"]
    idle_ops = idle_rate(r)
    host = r.c.others(r.c.leader())[0]
    span, at = Span(r.c), now(host) - host.clock()
    job = submit(host, f"-J 'a[1-{ELEMENTS}]' -o /dev/null", "true")
    wanted = [f"{job}[{n}]" for n in range(1, ELEMENTS + 1)]
    ended = lambda: r.c.server.ok("cat /proc/net/rpc/nfsd | head -1") and r.wait_done(wanted, 1)
    ran = until(600, lambda: quiet(ended), "the array ends", 1)
    span.close()
    took = max(one["end"] for one in ran.values()) - at
    r.line("array", ELEMENTS / took, "jobs/s", "bare_starts", r.bare["starts"])
    r.line("array_ops", span.total / ELEMENTS, "ops", "bound", 10)
    net = span.total - idle_ops * span.seconds
    r.line("array_ops_net", net / ELEMENTS, "ops", "bound", 10)
    show_by_machine(r, span, ELEMENTS)


def show_by_machine(r, span, number):
    """Who asked the server for what, for one of so many jobs."""
    leader = r.c.leader()
    for host in r.c.hosts:
        role = "leader" if host is leader else "other"
        for mount, ops in span.kinds[host.name].items():
            if ops:
                what = "commands" if mount == APART else "daemons"
                show(f"{role} {host.name} {what}", ops, number)


def show(who, ops, number):
    kinds = " ".join(f"{kind}={n / number:.1f}" for kind, n in ops.most_common(10))
    print(f"  {who}: {sum(ops.values()) / number:.1f}: {kinds}", file=sys.stderr, flush=True)


def quiet(look):
    try:
        return look()
    except Failed:
        return None


@part()
def silent(r):
    """A host whose daemons are killed: until chosts shows that, and until it is usable again."""
    c = r.c
    watching, host = c.leader(), c.others(c.leader())[0]
    for name, act, usable in (("shown", c.stop, False), ("back", c.start, True)):
        act(host, ("cbls", "cbexe"))
        began = time.monotonic()
        look = lambda: f"\n{host.name} ok " in re.sub(" +", " ", "\n" + watching.ok("chosts -w"))
        until(180, lambda: look() == usable, f"chosts shows {host.name}", 0.2)
        r.line(f"silent_{name}", time.monotonic() - began, "s")


@part(QUICK)
def takeover(r):
    """The leader's process is killed: how long no job starts, and where that time goes."""
    c = r.c
    first = c.hosts[0]
    submit(first, f"-J 'a[1-{KILLS * 400 + 400}]' -o /dev/null", "sleep 0.5")
    until(90, lambda: len(starts(c)) > 30, "jobs run")
    kills = []
    for _ in range(KILLS):
        epoch, leader = c.epoch(), c.leader()
        ahead = leader.clock()
        at = now(leader) - ahead
        leader.sh("pkill -9 -x cbsched")
        c.wait_leader(epoch)
        kills.append((at, epoch))
        time.sleep(6)
    times = starts(c)
    phases = {"claim": [], "wait": [], "recovery": [], "first_start": [], "gap": []}
    for at, epoch in kills:
        steps = leader_steps(c, epoch)
        after = next((t for t in times if t > steps["force"]), None)
        last = max((t for t in times if t < at + 1), default=at)
        if after is None:
            continue
        phases["claim"].append(steps["claim"] - at)
        phases["wait"].append(steps["lead"] - steps["claim"])
        phases["recovery"].append(steps["force"] - steps["lead"])
        phases["first_start"].append(after - steps["force"])
        phases["gap"].append(after - max(at, last))
    for name, values in phases.items():
        r.times(f"takeover_{name}", values)


def starts(c):
    """When jobs started on all hosts, in order, by this machine's clock."""
    times = []
    for host in c.hosts:
        ahead = host.clock()
        times += [t["t"] / 1000 - ahead for t in c.tasks(host) if t["k"] == "start"]
    return sorted(times)


def leader_steps(c, above):
    """When the first leader above an epoch claimed, led, and took requests, by the logs."""
    marks = {"claim": r"claiming epoch (\d+)", "lead": r"leading epoch (\d+)",
             "force": r"epoch (\d+) is in force"}
    found = []
    for host in c.hosts:
        steps, ahead = {}, host.clock()
        for line in log(host).split("\n"):
            for step, pattern in marks.items():
                seen = re.search(pattern, line)
                if seen and int(seen.group(1)) > above:
                    when = datetime.fromisoformat(line.split()[0].replace("Z", "+00:00"))
                    steps.setdefault(int(seen.group(1)), {})[step] = when.timestamp() - ahead
        found += [(epoch, s) for epoch, s in steps.items() if len(s) == len(marks)]
    need(found, f"no leader after epoch {above} in the logs")
    return min(found, key=lambda one: one[0])[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--home", default="target/nfs-lab")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.list:
        for name, (function, _) in PARTS.items():
            print(f"{name:12} {function.__doc__.splitlines()[0]}")
        return 0
    unknown = [n for n in args.names if n not in PARTS]
    if unknown:
        print(f"no part {' '.join(unknown)}; there are: {' '.join(PARTS)}")
        return 2
    wanted = args.names or list(PARTS)
    lab = Lab(args.home)
    lab.network()
    try:
        lab.up({})
        return 1 if any([measure(lab, listed, wanted) for listed in LISTED]) else 0
    finally:
        lab.down()


def measure(lab, listed, wanted):
    """All wanted parts on clusters with so many listed hosts; true when one failed."""
    bad, bare = False, {}
    for takeover in (CALM, QUICK):
        names = [n for n in wanted if PARTS[n][1] == takeover]
        if not names:
            continue
        c = Cluster(lab)
        c.up(takeover=takeover, listed=listed)
        for name in names:
            r = Round(c, listed)
            r.bare = bare
            try:
                PARTS[name][0](r)
            except Failed as error:
                print(f"{name}: FAILED: {error}", file=sys.stderr, flush=True)
                bad = True
        c.away()
    return bad


if __name__ == "__main__":
    sys.exit(main())
