"""What a server and its clients counted: operations of NFS, exact whatever the machine's load.

An operation is one request of a client with its answer (a COMPOUND of version 4). Reads counters,
asks the share for nothing.
"""
import re
import time
from collections import Counter

APART = "/nfs.apart"


def server_total(server):
    """Operations that the server answered since it booted."""
    text = server.ok("cat /proc/net/rpc/nfsd")
    return int(re.search(r"^rpc (\d+)", text, re.M).group(1))


def client_ops(host):
    """Operations that a client sent since it mounted: by mount point, then by kind."""
    out, ops = {}, None
    for line in host.ok("cat /proc/self/mountstats").split("\n"):
        mounted = re.match(r"device \S+ mounted on (\S+) with fstype (\S+)", line)
        if mounted:
            ops = out.setdefault(mounted.group(1), Counter()) if "nfs4" in mounted.group(2) else None
        kind = re.match(r"\s+([A-Z_]+): (\d+) ", line)
        if kind and ops is not None:
            ops[kind.group(1)] += int(kind.group(2))
    return out


def mount_apart(host):
    """Mounts the share a second time with counters and caches of its own, and gives the variable
    by which programs use that mount."""
    conf = f"CB_SHARE={APART}/corral\\nCB_LOCAL=/var/lib/corral\\n"
    options = "vers=4.2,hard,nosharecache"
    host.ok(
        f"mkdir -p {APART} /etc/corral.apart && printf '{conf}' > /etc/corral.apart/cb.conf && "
        f"mountpoint -q {APART} || mount -t nfs -o {options} 10.99.0.1:/export {APART}"
    )
    return "CB_ENVDIR=/etc/corral.apart"


class Span:
    """Operations between two moments, of the server and of each client's mounts."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.began, self.before = time.monotonic(), self.counters()

    def counters(self):
        c = self.cluster
        return server_total(c.server), {h.name: client_ops(h) for h in c.hosts}

    def close(self):
        total, clients = self.counters()
        self.seconds = time.monotonic() - self.began
        self.total = total - self.before[0]
        self.kinds = {
            name: {at: ops - self.before[1][name].get(at, Counter()) for at, ops in mounts.items()}
            for name, mounts in clients.items()
        }
        return self

    def of(self, host, mount="/nfs"):
        return sum(self.kinds[host.name].get(mount, Counter()).values())
