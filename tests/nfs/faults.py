"""Scenarios about leaders, the file server and the network."""
import os
import random
import time

from cluster import JOBS, SERVICE, SHARE, USERS, key, records
from lab import need, until
from scenario import TICKING, ended, history, log, now, scenario, submit, ticks, wait_event

AWAY = int(os.environ.get("CORRAL_NFS_AWAY", "300"))
SLOW = int(os.environ.get("CORRAL_NFS_SLOW", "180"))
KILLS = int(os.environ.get("CORRAL_NFS_KILLS", "30"))


def under_load(c, fault):
    """Submits on all hosts, lets `fault(leader, epoch)` happen in the middle, and judges."""
    c.submit(c.hosts)
    c.wait_acked(JOBS // 4)
    epoch, leader = c.epoch(), c.leader()
    figures = fault(leader, epoch)
    c.wait_acked(JOBS)
    c.stop_submitting()
    acked = [i for h in c.hosts for i in c.acked(h)]
    return f"{figures} {c.judge(acked)}"


@scenario()
def kill(c):
    """Power loss of the leader's machine, which comes back later."""

    def fault(leader, epoch):
        leader.kill()
        began = time.monotonic()
        c.wait_leader(epoch)
        took = time.monotonic() - began
        leader.boot()
        leader.wait_up()
        c.start(leader)
        c.submit([leader])
        return f"takeover={took:.1f}s"

    return under_load(c, fault)


def written(c, epoch):
    """Sizes of what the leader of an epoch wrote to be obeyed: answers and orders."""
    files = f"epoch/{epoch:06}/acks.yaml hosts/*/orders.{epoch:06}.*.yaml"
    found = c.server.ok(f"cd {SHARE} && stat -c '%n %s' {files} 2>/dev/null || true")
    return set(found.split("\n"))


def need_true_answers(c, epoch):
    """What the leader of an epoch told people is what the journal holds: a single answer may have
    been on its way when the leader stopped, but never one without its event."""
    told = records(c.server.ok(f"cat {SHARE}/epoch/{epoch:06}/acks.yaml"))[1:]
    ids = {str(run["id"]) for ack in told for run in ack.get("ids", [])}
    known = {str(e["id"]) for _, e in c.journal() if e["k"] == "submitted"}
    need(ids <= known, f"answered, but not in the journal: {sorted(ids - known)}")


def lost(leader):
    return "leadership is lost" in log(leader)


@scenario()
def freeze(c):
    """The leader's machine stops for longer than the lease of its locks, and goes on."""

    def fault(leader, epoch):
        leader.freeze()
        began = time.monotonic()
        c.wait_leader(epoch)
        took = time.monotonic() - began
        time.sleep(max(0, 3 * c.lab.lease - took))
        before = written(c, epoch)
        leader.thaw()
        frozen = time.monotonic() - began
        until(60, lambda: leader.sh("true", limit=5)[0] == 0, "the frozen guest answers")
        until(60, lambda: lost(leader), "the frozen leader says that it lost")
        until(60, lambda: ended(leader) >= 1, "the frozen leader ends")
        time.sleep(10)
        late = len(written(c, epoch) - before)
        need_true_answers(c, epoch)
        return f"takeover={took:.1f}s frozen={frozen:.0f}s written_late={late}"

    return under_load(c, fault)


@scenario()
def cut_leader(c):
    """The leader's machine is cut from the file server, and comes back."""

    def fault(leader, epoch):
        leader.cut()
        began = time.monotonic()
        # The process itself cannot end while a thread of it hangs in the kernel.
        until(60, lambda: lost(leader), "the cut leader gives up", 0.1)
        gave_up = time.monotonic() - began
        c.wait_leader(epoch)
        took = time.monotonic() - began
        time.sleep(max(0, 3 * c.lab.lease - took))
        before = written(c, epoch)
        leader.heal()
        until(120, lambda: ended(leader) >= 1, "the cut leader ends")
        time.sleep(10)
        late = len(written(c, epoch) - before)
        need_true_answers(c, epoch)
        return f"gave_up={gave_up:.1f}s takeover={took:.1f}s written_late={late}"

    return under_load(c, fault)


@scenario()
def cut_masters(c):
    """The masters cannot reach each other, but all reach the server: nobody may notice."""

    def fault(leader, epoch):
        for host in c.hosts:
            host.apart(True)
        for host in c.hosts:
            for other in c.others(host):
                address = f"10.99.0.{other.number}"
                connect = f"import socket; socket.create_connection((\"{address}\", 22))"
                tried = f"timeout 3 python3 -c '{connect}'"
                rc, out = host.sh(tried, limit=20)
                # No answer in time, or none to the question where that address is.
                cut = rc == 124 or "No route to host" in out
                need(cut, f"{host.name} still reaches {other.name}: {rc} {out}")
        leader.start("cbsched > /var/tmp/second.log 2>&1; echo ended $? >> /var/tmp/second.log")
        c.wait_acked(JOBS // 2)
        time.sleep(30)
        need(c.epoch() == epoch, "the leader changed")
        second = leader.ok("cat /var/tmp/second.log; pgrep -xc cbsched")
        need("leading" not in second and second.strip()[-1] == "2", f"second candidate: {second}")
        c.wait_acked(JOBS)
        for host in c.hosts:
            host.apart(False)
        need(c.epoch() == epoch, "the leader changed")
        return f"epoch={epoch}"

    return under_load(c, fault)


@scenario()
def server_restart(c):
    """Power loss of the file server, which comes back with its disk and a grace period."""

    def fault(leader, epoch):
        c.server.kill()
        began = time.monotonic()
        c.server.boot()
        c.server.wait_up()
        answered = sum(len(c.acked(h)) for h in c.hosts)
        c.wait_acked(answered + 10)
        return f"answers_after={time.monotonic() - began:.1f}s epochs={c.epoch() - epoch}"

    return under_load(c, fault)


@scenario()
def server_away(c):
    """The file server cannot be reached for five minutes: jobs go on, submissions wait."""
    jobs = {h: submit(h, f"-m {h.name} -o /dev/null", TICKING % (AWAY + 60)) for h in c.hosts}
    for host in c.hosts:
        until(60, lambda: ticks(host, jobs[host]), f"{host.name} runs its job")
    epoch = c.epoch()
    c.server.cut()
    began = time.monotonic()
    first = c.hosts[0]
    rc, said = first.sh("timeout -s INT 30 csub -o /dev/null true", 1001, limit=60)
    need("share" in said or "no answer" in said, f"a submission waits without a word: {said!r}")
    need(rc != 0, "a submission was accepted without the server")
    need("timeout: sending" not in said and rc != 125, f"^C did not end csub: {rc} {said!r}")
    first.start("csub -o /dev/null true > /var/tmp/waits 2>&1; echo rc $? >> /var/tmp/waits", 1001)
    time.sleep(max(0, AWAY - (time.monotonic() - began)))
    for host in c.hosts:
        seen = ticks(host, jobs[host])
        gap = max(b - a for a, b in zip(seen, seen[1:]))
        alive = len(seen) > AWAY / 2 and now(host) - seen[-1] < 20
        need(alive, f"{host.name}: its job stood still")
        need(gap < 30, f"{host.name}: its job paused for {gap:.0f} s")
    c.server.heal()
    healed = time.monotonic()
    fresh = until(300, lambda: (c.leading() or 0) > epoch and c.leading(), "a leader again")
    led = time.monotonic() - healed
    for host in c.hosts:
        end = wait_event(c, jobs[host], 300, "ended")
        need(end.get("code") == 0, f"a job of {host.name} ended badly: {end}")
    waited = until(120, lambda: "rc" in first.ok("cat /var/tmp/waits"), "the waiting csub ends")
    said = first.ok("cat /var/tmp/waits")
    job = submit(first, "-o /dev/null", "true")
    wait_event(c, job, 120, "ended")
    answered = "answered" if waited and "Job <" in said else "asked to come again"
    return f"away={AWAY}s leads_after={led:.1f}s epochs={fresh - epoch} waiting_csub={answered}"


@scenario()
def stale(c):
    """The export is withdrawn and comes back as another file system, then as the old one."""

    def fault(leader, epoch):
        net = "10.99.0.0/24"
        c.server.ok(f"exportfs -u {net}:/export; exportfs -f")
        options = "rw,sync,root_squash,no_subtree_check"
        c.server.ok(f"exportfs -o {options},fsid=7 {net}:/export")
        began = time.monotonic()
        until(90, lambda: ended(leader) >= 1 or lost(leader), "the leader gives up")
        gave_up = time.monotonic() - began
        c.server.ok(f"exportfs -u {net}:/export; exportfs -f")
        c.server.ok(f"exportfs -o {options},fsid=1 {net}:/export")
        until(300, lambda: (c.leading() or 0) > epoch, "a leader again")
        c.submit(c.hosts)
        return f"gave_up={gave_up:.1f}s"

    return under_load(c, fault)


@scenario(takeover="15s")
def slow_server(c):
    """Every answer of the server is 200 ms late under load: no change of leader."""

    def fault(leader, epoch):
        c.server.ok("modprobe sch_netem; tc qdisc add dev vec0 root netem delay 200ms")
        time.sleep(SLOW)
        need(c.epoch() == epoch, f"the leader changed: {log(leader)[-500:]}")
        c.server.ok("tc qdisc del dev vec0 root")
        return f"slow_for={SLOW}s epoch={epoch}"

    return under_load(c, fault)


@scenario()
def clocks(c):
    """The leader's clock steps ten minutes ahead, another host's ten minutes back."""

    def fault(leader, epoch):
        back = c.others(leader)[0]
        leader.ok("date -s '+10 minutes'")
        back.ok("date -s '-10 minutes'")
        time.sleep(40)
        need(c.epoch() == epoch, "the leader changed")
        _, shown = c.others(leader)[1].sh("cinfo 2>&1; chosts -l 2>&1", limit=60)
        told = "skew_told=" + ("yes" if "clock" in shown.lower() else "no")
        return f"epoch={epoch} {told}"

    return under_load(c, fault)


@scenario(takeover="3s")
def takeover(c):
    """Kills of the leader's process under a stream of jobs: the gap in which no job starts."""
    first = c.hosts[0]
    mark = "mkdir /nfs/marks/$CB_JOBID.$CB_JOBINDEX.$CB_ATTEMPT.$(hostname).$$; sleep 0.5"
    array = submit(first, f"-J 'a[1-{KILLS * 400}]' -o /dev/null", mark)
    starts = lambda: [r for h in c.hosts for r in c.tasks(h) if r["k"] == "start"]
    until(60, lambda: len(starts()) > 30, "jobs run")
    kills, answers = [], []
    for _ in range(KILLS):
        epoch, leader = c.epoch(), c.leader()
        at = now(leader)
        # One that has just lost its lease is not there to be killed: that is counted below.
        leader.sh("pkill -9 -x cbsched")
        began = time.monotonic()
        rc, _ = c.others(leader)[0].sh("csub -o /dev/null true", 1001, limit=120)
        answers.append(time.monotonic() - began if rc == 0 else 999.0)
        c.wait_leader(epoch)
        kills.append(at)
        time.sleep(4 + random.random() * 4)
    killed = lambda: first.sh(f"ckill {array}", USERS[first.name], limit=120)[0] == 0
    until(600, killed, "the rest of the array is killed")
    c.settle_array(array)
    seen = starts()
    twice = len(seen) - len({(key(r), r["at"]) for r in seen})
    need(not twice, f"{twice} attempts started twice")
    marks = c.server.ok("ls /export/marks").split()
    need(len({m.rsplit(".", 3)[0] for m in marks}) == len(marks), "an element ran twice")
    lost_lease = sum(log(h).count("leadership is lost") for h in c.hosts)
    missing = [h.name for h in c.hosts if "is missing" in log(h)]
    need(not missing, f"a journal was believed missing: {missing}")
    times = sorted(r["t"] / 1000 for r in seen)
    usual = sorted(b - a for a, b in zip(times, times[1:]))
    gaps = sorted(gap_after(times, at) for at in kills)
    answers.sort()
    pick = lambda list_, n: list_[min(len(list_) - 1, len(list_) * n // 100)]
    return (
        f"kills={len(kills)} gap_p50={pick(gaps, 50):.1f}s gap_p99={pick(gaps, 99):.1f}s "
        f"csub_p50={pick(answers, 50):.1f}s csub_p99={pick(answers, 99):.1f}s "
        f"usual_gap_p99={pick(usual, 99):.1f}s starts={len(times)} epochs={c.epoch()} "
        f"lost_lease={lost_lease}"
    )


@scenario()
def latency(c):
    """How long an idle cluster takes to answer and to start a job, from each host."""
    spent, waits = [], []
    for n in range(10):
        for host in c.hosts:
            target = c.hosts[n % len(c.hosts)]
            timed = (
                f"a=$(date +%s%N); csub -m {target.name} -o /dev/null true; "
                "b=$(date +%s%N); echo took $a $((b - a))"
            )
            said = host.ok(timed, USERS[host.name])
            at, took = said.split("took ")[1].split()
            spent.append(int(took) / 1e9)
            waits.append((said.split("<")[1].split(">")[0], int(at) / 1e9))
    starts = {key(r): r["t"] / 1000 for h in c.hosts for r in c.tasks(h) if r["k"] == "start"}
    late = sorted(starts.get(job, at + 99) - at for job, at in waits)
    spent.sort()
    middle, high = len(spent) // 2, len(spent) * 9 // 10
    return (
        f"csub_p50={spent[middle]:.2f}s csub_p90={spent[high]:.2f}s "
        f"start_p50={late[middle]:.2f}s start_p90={late[high]:.2f}s"
    )


@scenario(machines={"server": {"export": "rw,async,root_squash,no_subtree_check"}})
def async_export(c):
    """Power loss of a server that acknowledges what it has not written: what is lost is named."""
    c.submit(c.hosts)
    c.wait_acked(120)
    c.server.kill()
    c.server.boot()
    c.server.wait_up()
    time.sleep(90)
    for host in c.hosts:
        host.sh("touch /run/submit.stop")
    acked = {i for h in c.hosts for i in c.acked(h)}
    rc, said = c.hosts[0].sh("cadmin fsck /nfs/corral 2>&1", SERVICE, limit=120)
    known = {str(e["id"]) for _, e in c.journal() if e["k"] == "submitted"}
    gone = acked - known
    logs = "".join(log(h) for h in c.hosts)
    told = rc == 1 or "lost+found" in logs or "refused" in logs
    need(not gone or told, f"{len(gone)} accepted jobs vanished without a word: {said[-300:]}")
    leads = c.leading() is not None and c.leading() == c.epoch()
    found = "; ".join(said.strip().split("\n")[:3])
    return f"accepted={len(acked)} vanished={len(gone)} leads={leads} fsck={rc}: {found}"


def gap_after(starts, at):
    """The longest time without a start that begins within 5 s after `at`, or spans it."""
    pairs = zip(starts, starts[1:])
    return max((b - a for a, b in pairs if b > at and a < at + 5), default=0.0)
