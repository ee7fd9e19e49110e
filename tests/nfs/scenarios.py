"""Scenarios that run the product on the lab, and the program that runs them: faults.py has those
about leaders, server and network, hosts.py those about hosts and jobs, restored.py those in which
an older copy takes the place of the share."""
import argparse
import subprocess
import sys
import time
import traceback
from pathlib import Path

import faults
import hosts
import restored
from cluster import SHARE, Cluster
from lab import Failed, Lab
from scenario import SCENARIOS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--home", default="target/nfs-lab")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.list:
        for name, (function, _, _) in SCENARIOS.items():
            print(f"{name:20} {function.__doc__.splitlines()[0]}")
        return 0
    unknown = [n for n in args.names if n not in SCENARIOS]
    if unknown:
        print(f"no scenario {' '.join(unknown)}; there are: {' '.join(SCENARIOS)}")
        return 2
    lab = Lab(args.home)
    lab.network()
    bad = [name for name in args.names or SCENARIOS if not run(lab, name)]
    return 1 if bad else 0


def run(lab, name):
    """One scenario on fresh machines; prints its line."""
    function, machines, options = SCENARIOS[name]
    c = Cluster(lab)
    began = time.monotonic()
    result, figures = "ok", ""
    try:
        lab.up(machines)
        c.up(**options)
        figures = function(c)
    except (Failed, subprocess.SubprocessError, OSError) as error:
        result, figures = "FAILED", str(error)
        keep_logs(lab, name)
        if not isinstance(error, Failed):
            traceback.print_exc()
    finally:
        lab.down()
    print(f"{name:18} {result:6} {time.monotonic() - began:6.0f}s  {figures}", flush=True)
    return result == "ok"


def keep_logs(lab, name):
    """What is left of a scenario that failed."""
    place = Path(lab.home) / "logs" / name
    place.mkdir(parents=True, exist_ok=True)
    for guest in lab.guests:
        cmd = (
            "for f in /var/log/cb*.log /var/log/said*; do echo \"== $f\"; tail -c 200000 $f; done; "
            "dmesg | tail -50; ps axo pid,ppid,stat,wchan:20,args"
        )
        if guest.process:
            (place / guest.name).write_text(guest.sh(cmd, limit=60)[1])
    if lab.server.process:
        _, listing = lab.server.sh(f"cd {SHARE} && ls -laR . && cat leader/epoch leader/beat")
        (place / "share").write_text(listing)
        lab.server.sh("tar cf /tmp/share.tar -C /export .", limit=120)
    print(f"logs are in {place}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
