"""Scenarios in which the share is put back from a copy of the epoch that still goes on, while hosts
and their tasks live: the copy of the directory on the server, and the server's disk."""
import time

from cluster import SERVICE, SHARE
from lab import need, until
from scenario import TICKING, history, scenario, submit, ticks, wait_event

# Ids after the administrator's word begin behind this.
STEP = 10_000


def stands_still(host, job):
    """Whether a job that writes a line a second has written none for three."""
    before = len(ticks(host, job))
    time.sleep(3)
    return len(ticks(host, job)) == before


def restored(c, copy, put_back):
    """Three jobs that the copy knows differently or not at all; then the copy takes the place of
    the share, and an administrator confirms it."""
    host, other = c.others(c.leader())
    runs = submit(host, f"-m {host.name} -o /dev/null", TICKING % 30)
    until(60, lambda: ticks(host, runs), f"{runs} runs")
    waits = submit(host, f"-H -m {host.name} -o /dev/null", TICKING % 1)
    wait_event(c, runs, 60, "started")
    copy()
    # What the copy does not know: a run that ended, a job that waited and ended, a job that runs.
    first = c.hosts[0]
    first.ok(f"cresume {waits}", SERVICE)
    lost = submit(other, f"-m {other.name} -o /dev/null", TICKING % 3600)
    until(60, lambda: ticks(other, lost), f"{lost} runs")
    for job in (waits, runs):
        wait_event(c, job, 120, "ended")
    for each in c.hosts:
        c.stop(each, ("cbsched",))
    before = {job: len(ticks(host, job)) for job in (runs, waits)}
    put_back()
    need(not history(c, lost), f"the copy knows job {lost}")
    for each in c.hosts:
        c.start(each, ("cbsched",))
    health = lambda: first.sh("cinfo -health 2>&1", limit=60)[1]
    until(300, lambda: "the share is older than the cluster" in health(), health, 2)
    rc, said = first.sh("timeout 60 csub -o /dev/null true", 1001, limit=90)
    need(rc != 0 and "older than the cluster" in said, f"a submission was not refused: {said!r}")
    need(not stands_still(other, lost), f"job {lost} was killed before anybody confirmed it")
    said = first.ok("cadmin restored --confirm -wait 120", SERVICE, limit=150)
    need("1 pending jobs are held" in said, said)
    c.wait_ready()
    new = submit(first, "-o /dev/null", "true")
    need(int(new) > STEP, f"job {new} may be a forgotten one")
    wait_event(c, new, 180, "ended")
    # The run that nobody remembers is over and was not started again; the unknown one is killed.
    until(180, lambda: any(e["k"] == "ended" for e in history(c, runs)), f"{runs} ends", 2)
    until(180, lambda: stands_still(other, lost), f"job {lost} is killed", 2)
    named = lambda: f"attempt {lost}.1" in first.sh("cadmin check 2>&1", SERVICE, 90)[1]
    until(180, lambda: not named(), f"job {lost} is not named any more", 2)
    after = {job: len(ticks(host, job)) for job in (runs, waits)}
    need(after == before, f"started twice: {before} lines, then {after}")
    # The held job runs again by somebody's word, as another attempt where its host knows the first.
    first.ok(f"cresume {waits}", SERVICE)
    until(180, lambda: any(e["k"] == "ended" for e in history(c, waits)), f"{waits} ends", 2)
    at = max(e["at"] for e in history(c, waits) if e["k"] == "ended")
    return f"new={new} attempts_of_the_held_job={at}"


@scenario()
def restored_directory(c):
    """The shared directory is put back from a copy of the same epoch while hosts live."""
    copy = f"{SHARE}.copy"

    def put_back():
        c.server.ok(f"mv {SHARE} {SHARE}.gone && mv {copy} {SHARE}; sync")

    return restored(c, lambda: c.server.ok(f"cp -a {SHARE} {copy}; sync", limit=120), put_back)


@scenario()
def restored_disk(c):
    """The file server comes back with an older image of its disk, of the same epoch."""
    copy = lambda: c.lab.copy_export("kept")
    return restored(c, copy, lambda: c.lab.restore_export("kept"))
