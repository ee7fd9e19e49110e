"""Scenarios about hosts and what runs on them."""
import time

from cluster import SHARE, USERS
from lab import MOUNT, need, until
from scenario import TICKING, history, log, now, scenario, submit, ticks, wait_event

ISO = 20


def pair(c, seconds):
    """A rerunnable job and one that may not run again, both running on one host that does not
    lead; gives that host, the other one that the first may run on, and the jobs."""
    two = c.others(c.leader())
    names = " ".join(h.name for h in two)
    again = submit(two[0], f"-q again -m '{names}' -o /dev/null", TICKING % seconds)
    host = until(90, lambda: next((h for h in two if ticks(h, again)), None), f"{again} runs")
    once = submit(host, f"-m {host.name} -o /dev/null", TICKING % seconds)
    until(90, lambda: ticks(host, once), f"{once} runs on {host.name}")
    load = f"{SHARE}/hosts/{host.name}/load.yaml"
    until(60, lambda: f'"iso_ms":{ISO * 1000},' in c.server.ok(f"cat {load}"), "its limit is known")
    return host, next(h for h in two if h is not host), again, once


def need_no_overlap(host, other, job):
    """The second attempt began after the first one had ended."""
    first, second = ticks(host, job, 1), ticks(other, job, 2)
    need(second and second[0] > first[-1], f"both ran: {first[-1]} {second[:1]}")
    return second[0] - first[-1]


@scenario(iso=f"{ISO}s")
def cut_host(c):
    """A host that is cut off kills what may run again, which then runs elsewhere."""
    host, elsewhere, again, once = pair(c, 100)
    at = now(host)
    host.cut()
    # By cbexe, which says so, or by its own shepherd, whoever looks first.
    until(ISO + 60, lambda: now(host) - ticks(host, again)[-1] > 5, "the rerunnable job is dead")
    fenced = ticks(host, again)[-1] - at
    wait_event(c, again, 180, "started", at=2)
    until(60, lambda: ticks(elsewhere, again, 2), "the second attempt runs elsewhere")
    gap = need_no_overlap(host, elsewhere, again)
    host.heal()
    end = wait_event(c, once, 300, "ended")
    need(end.get("code") == 0, f"the other job was harmed: {end}")
    end = wait_event(c, again, 300, "ended", at=2)
    need(end.get("code") == 0, f"the second attempt ended badly: {end}")
    need(not ticks(elsewhere, once, 2), "a job that may not run again did")
    return f"last_sign_of_life={fenced:.0f}s_after_cut gap={gap:.0f}s"


@scenario(iso=f"{ISO}s")
def executor_restart_away(c):
    """cbexe is killed while its host is cut off: tasks fence themselves, and are adopted later."""
    host, elsewhere, again, once = pair(c, 120)
    at = now(host)
    host.cut()
    time.sleep(3)
    host.sh("pkill -9 -x cbexe")
    until(ISO + 60, lambda: now(host) - ticks(host, again)[-1] > 5, "the rerunnable job is dead")
    fenced = ticks(host, again)[-1] - at
    wait_event(c, again, 180, "started", at=2)
    until(60, lambda: ticks(elsewhere, again, 2), "the second attempt runs elsewhere")
    gap = need_no_overlap(host, elsewhere, again)
    need(now(host) - ticks(host, once)[-1] < 5, "the other job stopped")
    host.heal()
    end = wait_event(c, once, 300, "ended")
    need(end.get("code") == 0, f"the other job was harmed: {end}")
    return f"last_sign_of_life={fenced:.0f}s_after_cut gap={gap:.0f}s"


@scenario(iso=f"{ISO}s")
def freeze_host(c):
    """A host stops for longer than iso_timeout: what runs elsewhere by then dies at the thaw."""
    host, elsewhere, again, once = pair(c, 150)
    host.freeze()
    wait_event(c, again, 180, "started", at=2)
    until(60, lambda: ticks(elsewhere, again, 2), "the second attempt runs elsewhere")
    time.sleep(5)
    host.thaw()
    thawed = now(elsewhere)
    until(60, lambda: host.sh("true", limit=5)[0] == 0, "the frozen guest answers")
    until(60, lambda: now(host) - ticks(host, again)[-1] > 5, "the rerunnable job is dead")
    late = max(0.0, ticks(host, again)[-1] - thawed)
    need(late < ISO / 4, f"it lived on for {late:.1f} s")
    for job, at in ((once, 1), (again, 2)):
        end = wait_event(c, job, 300, "ended", at=at)
        need(end.get("code") == 0, f"{job} ended badly: {end}")
    return f"lived_on={late:.1f}s"


@scenario()
def reboot(c):
    """A host loses power under its jobs and comes back with another boot id."""
    host = next(h for h in c.hosts[1:] if h is not c.leader())
    again = submit(host, f"-q again -m {host.name} -o /dev/null", TICKING % 30)
    once = submit(host, f"-m {host.name} -o /dev/null", TICKING % 600)
    for job in (again, once):
        until(90, lambda: ticks(host, job), f"{job} runs")
        wait_event(c, job, 60, "started")
    host.kill()
    time.sleep(5)
    host.boot()
    host.wait_up()
    c.start(host)
    end = wait_event(c, once, 180, "ended")
    need(end.get("reason") == "host_lost", f"the lost job ended as {end}")
    end = wait_event(c, again, 240, "ended", at=2)
    need(end.get("code") == 0, f"the second attempt ended as {end}")
    _, shown = host.sh(f"cjobs -l {once} 2>&1; chist -l {once} 2>&1", USERS[host.name])
    return f"shown={'restarted' if 'restart' in shown else shown[-200:]!r}"


@scenario()
def same_name(c):
    """A second machine under the name of a host starts nothing."""
    two, three = c.hosts[1], c.hosts[2]
    c.stop(three)
    three.ok("echo CB_HOST=c2 >> /etc/corral/cb.conf; sed -i s,/var/lib/corral,/var/lib/other, "
             "/etc/corral/cb.conf; date -s '+15 minutes'")
    c.start(three, ("cbls", "cbexe"))
    marked = []
    for _ in range(20):
        command = "mkdir /nfs/marks/$CB_JOBID.$(hostname).$$"
        marked.append(submit(two, "-m c2 -o /dev/null", command))
        time.sleep(1)
    for name in ("cbls", "cbexe"):
        refused = lambda: "another machine" in log(three, name)
        until(60, refused, lambda: f"{name} refuses: {log(three, name)[-300:]}")
    for job in marked:
        wait_event(c, job, 120, "ended")
    names = c.server.ok("ls /export/marks").split()
    wrong = [n for n in names if ".c2." not in n]
    need(not wrong and len(names) == len(marked), f"ran elsewhere or twice: {wrong or names}")
    return f"jobs={len(marked)}"


@scenario(machines={"c3": {"mount": MOUNT.replace("hard", "soft,timeo=100"), "recover": "yes"}})
def bad_mount(c):
    """A soft mount is refused and recover_lost_locks warned about when a leader starts."""
    host = c.hosts[2]
    said = log(host)
    for word in ("soft", "recover_lost_locks"):
        need(word in said, f"cbsched says nothing about {word}: {said}")
    good = log(c.hosts[1])
    need("WARN" not in good, f"a good mount is warned about: {good}")
    _, shown = host.sh("cinfo 2>&1; chosts -l c3 2>&1")
    return f"shown={'yes' if 'soft' in shown else 'no'}"


@scenario()
def limits(c):
    """Limits by control groups of version 2, and what a job leaves behind."""
    host = next(h for h in c.hosts if h is not c.leader())
    at = f"-m {host.name} -o /dev/null"
    hog = submit(host, f"{at} -M 40", "python3 -c 'x = bytearray(150 << 20)'")
    many = "python3 -c 'import os,sys,time\nfor i in range(50):\n  os.fork() or time.sleep(9)'"
    forks = submit(host, f"{at} -p 10", many)
    left = submit(host, at, "setsid sleep 987 >/dev/null 2>&1 & setsid sleep 986 & sleep 1")
    look = "cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/memory.max > /nfs/marks/max"
    shown = submit(host, f"{at} -M 40", look)
    end = wait_event(c, hog, 120, "ended")
    need(end.get("code") != 0 and "mem" in str(end.get("reason")), f"over its memory: {end}")
    end = wait_event(c, forks, 120, "ended")
    need(end.get("code") != 0, f"over its processes: {end}")
    wait_event(c, left, 120, "ended")
    rc, _ = host.sh("pgrep -f 'sleep 98[67]'".replace("sleep", "[s]leep"))
    need(rc == 1, "processes were left behind")
    wait_event(c, shown, 120, "ended")
    limit = c.server.ok("cat /export/marks/max").strip()
    need(limit == str(40 << 20), f"memory.max is {limit}")
    need("cgroup v2" in log(host, "cbexe"), "cbexe does not use version 2")
    until(60, lambda: not groups(host), lambda: f"groups stay: {groups(host)}")
    return f"memory.max={limit}"


# A root file system of one program; a text that doubles until it does not fit; more processes than
# may be.
IMAGE = ("mkdir -p /image/bin /image/etc /image/tmp; cp /bin/busybox /image/bin/; "
         "for n in sh sleep id; do ln -sf busybox /image/bin/$n; done")
EATER = "x=0123456789abcdef; while :; do x=$x$x; done"
FORKS = "n=0; while [ $n -lt 50 ]; do sleep 9 & n=$((n+1)); done; wait"


@scenario()
def contained(c):
    """The limits of control groups of version 2 inside a container, which a kill leaves nothing of."""
    host = next(h for h in c.hosts if h is not c.leader())
    host.ok(IMAGE)
    at = f"-m {host.name} -o /dev/null -cwd /nfs/marks -di /image"
    hog = submit(host, f"{at} -M 40", EATER)
    forks = submit(host, f"{at} -p 10", FORKS)
    shown = submit(host, f"{at} -M 40", "id -u > inside")
    lasting = submit(host, at, "sleep 985 & sleep 985")
    end = wait_event(c, hog, 120, "ended")
    need(end.get("code") != 0 and "mem" in str(end.get("reason")), f"over its memory: {end}")
    # Pages of files that others have in memory count for the peak, not for the limit.
    peak = end.get("maxmem_kb", 0)
    need(8 << 10 < peak <= 44 << 10, f"its peak is {peak} KB: {end}")
    end = wait_event(c, forks, 120, "ended")
    need(end.get("code") != 0, f"over its processes: {end}")
    wait_event(c, shown, 120, "ended")
    seen = c.server.ok("cat /export/marks/inside").strip()
    need(seen == str(USERS[host.name]), f"another user inside: {seen}")
    wait_event(c, lasting, 60, "started")
    host.ok(f"ckill {lasting}", USERS[host.name])
    wait_event(c, lasting, 60, "ended")
    rc, _ = host.sh("pgrep -f '[s]leep 985'")
    need(rc == 1, "a container was left behind")
    until(60, lambda: not groups(host), lambda: f"groups stay: {groups(host)}")
    return f"peak={peak}KB"


def groups(host):
    """Control groups of ended tasks."""
    found = host.ok("find /sys/fs/cgroup -mindepth 2 -path '*corral*' -type d").split()
    empty = [g for g in found if host.sh(f"grep -q 'populated 1' {g}/cgroup.events")[0] == 0]
    return [g for g in empty if "task" in g]


@scenario()
def users(c):
    """Several users from several hosts: each job runs as its submitter, nobody acts for another."""
    jobs = {}
    for uid in USERS.values():
        for source in c.hosts:
            for target in c.hosts:
                what = f"touch /nfs/marks/{uid}.{source.name}.{target.name}; test $(id -u) = {uid}"
                jobs[submit(source, f"-m {target.name} -o /dev/null", what, uid)] = uid
    for job in jobs:
        end = wait_event(c, job, 120, "ended")
        need(end.get("code") == 0, f"{job}: {end}")
    owners = c.server.ok("cd /export/marks && stat -c '%n %u' *").strip().split("\n")
    need(len(owners) == len(jobs), f"{len(owners)} of {len(jobs)} left their mark")
    wrong = [o for o in owners if o.split(".")[0] != o.split(" ")[1]]
    need(not wrong, f"ran as somebody else: {wrong}")
    first = c.hosts[0]
    mine = submit(first, "-o /dev/null", "sleep 600", 1001)
    rc, said = first.sh(f"ckill {mine}", 1002)
    need(rc != 0, f"another user's job was killed: {said}")
    rc, said = first.sh(f"csub -o /dev/null true; csub true")
    need(rc != 0, f"root may submit: {said}")
    # A file that is removed while it is open stays as .nfs...: not a request, nobody's damage.
    first.start("/lab/guest/unlinked /nfs/corral/inbox/1001/r.x 30", 1001)
    time.sleep(10)
    first.ok(f"ckill {mine}", 1001)
    wait_event(c, mine, 60, "ended")
    damaged = c.server.ok(f"ls -A {SHARE}/lost+found")
    need(not damaged.strip(), f"set aside: {damaged}")
    return f"jobs={len(jobs)}"


@scenario(machines={"server": {"old": "yes"}})
def hung_job(c):
    """A job hangs in another file system: it is shown, keeps its slot, and nothing spins."""
    host = next(h for h in c.hosts if h is not c.leader())
    c.server.ok("ip addr add 10.99.0.2/24 dev vec0")
    host.ok("mkdir -p /other && modprobe nfsv3 && "
            "mount -t nfs -o vers=3,nolock,hard 10.99.0.2:/export /other")
    user = USERS[host.name]
    command = "sleep 5; dd if=/dev/zero of=/other/marks/big bs=1k count=64 conv=fsync"
    hangs = submit(host, f"-m {host.name} -o /dev/null", command)
    wait_event(c, hangs, 60, "started")
    c.server.ok("ip addr del 10.99.0.2/24 dev vec0")
    stuck = lambda: host.sh("ps axo stat,args | grep -q '^D.*[d]d if='")[0] == 0
    until(60, stuck, "the job hangs")
    host.ok(f"ckill {hangs}", user)
    time.sleep(30)
    busy = "for p in $(pgrep -x cbexe) $(pgrep -x cbtask); do cut -d' ' -f14,15 /proc/$p/stat; done"
    before = sum(map(int, host.ok(busy).split()))
    time.sleep(20)
    used = (sum(map(int, host.ok(busy).split())) - before) / 20
    need(used < 30, f"{used:.0f} % of a processor while nothing can be done")
    stat = host.ok(f"cjobs -a -noheader -o stat {hangs}", user).strip()
    need(not [e for e in history(c, hangs) if e["k"] == "ended"] or not stuck(), "ended, but runs")
    after = submit(host, f"-m {host.name} -o /dev/null", "true")
    wait_event(c, after, 60, "ended")
    c.server.ok("ip addr add 10.99.0.2/24 dev vec0")
    end = wait_event(c, hangs, 180, "ended")
    return f"processor={used:.0f}% stat={stat} end={end.get('reason')}"


@scenario()
def unmounted(c):
    """A host without the mount: no daemon starts, nothing is written into the empty directory."""
    host = c.hosts[2]
    c.stop(host)
    host.ok("umount -l /nfs")
    codes = {}
    for name in ("cbsched", "cbls", "cbexe"):
        rc, said = host.sh(f"timeout 20 {name} 2>&1")
        need("mounted" in said, f"{name} does not say what is wrong: {said}")
        codes[name] = rc
    need(codes["cbsched"] == 2, f"exit codes {codes}")
    rc, said = host.sh("csub true 2>&1", USERS[host.name])
    need(rc != 0 and "mounted" in said, f"csub: {rc} {said}")
    need(not host.ok("ls -A /nfs").strip(), "something was written")
    return " ".join(f"{name}={rc}" for name, rc in codes.items())
