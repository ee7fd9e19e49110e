"""The list of scenarios, and what several of them need."""
import re

from cluster import USERS, key
from lab import need, until

SCENARIOS = {}


def scenario(machines=None, **options):
    """Registers a scenario: a function that is given a running cluster, does something bad to it,
    holds what came of it against the promises, and returns figures as text. Judged by what
    happened, never by how fast a guest is. `machines`: settings of single guests (Guest.boot);
    `options`: of the cluster (Cluster.up)."""

    def add(function):
        SCENARIOS[function.__name__] = (function, machines or {}, options)
        return function

    return add


def ended(host, name="cbsched"):
    """How often the daemon ended on the host so far."""
    return log(host, name).count(f"keep: {name} ended")


def log(host, name="cbsched"):
    return host.ok(f"cat /var/log/{name}.log 2>/dev/null || true")


def submit(host, options, command, uid=None):
    """Submits one job as a user of the host; gives its id."""
    command = command.replace("'", "'\\''")
    said = host.ok(f"csub {options} '{command}'", uid or USERS[host.name])
    found = re.search(r"Job <(\d+)>", said)
    need(found, f"csub said {said}")
    return found.group(1)


def history(c, job):
    """Events of one job."""
    return [e for _, e in c.journal() if key(e) == job]


def wait_event(c, job, limit, kind, at=1):
    """Until an event of this kind and attempt of the job is in the journal; gives it."""

    def look():
        found = [e for e in history(c, job) if e["k"] == kind and e.get("at", at) == at]
        return found[0] if found else None

    return until(limit, look, lambda: f"{kind} of {job}: {history(c, job)[-2:]}", 2)


# A job that shows that it runs: a line a second with the time, in a file of its host.
TICKING = (
    "i=0; while [ $i -lt %d ]; do i=$((i+1)); "
    "date +%%s.%%N >> /var/tmp/ticks.$CB_JOBID.$CB_ATTEMPT; sleep 1; done"
)


def ticks(host, job, attempt=1):
    """When the ticking job showed that it ran on this host."""
    text = host.ok(f"cat /var/tmp/ticks.{job}.{attempt} 2>/dev/null || true")
    return [float(line) for line in text.split()]


def now(host):
    return float(host.ok("date +%s.%N"))
