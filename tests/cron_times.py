"""Due times of random cron expressions by cronsim, for sbin/cron-oracle.

One line for each expression, zone and start: expression, zone, start (epoch seconds), then the due times as minutes
since the start. From the beginning of the three years up to MOST times, and around each change of the clock.
"""

import random
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from cronsim import CronSim

# Not Australia/Lord_Howe, whose clock changes by half an hour: what repeats every few minutes then leaves out times
# here that fit (*/17 16 * * * lacks 16:00 on 2025-04-06). src/text/cron/tests.rs has that zone.
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Adelaide", "Asia/Kolkata"]
BEGIN = datetime(2025, 1, 1, tzinfo=timezone.utc)
END = datetime(2028, 1, 1, tzinfo=timezone.utc)
MOST = 1500
AROUND = 300
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
DAYS = "sun mon tue wed thu fri sat".split()


def field(rng, low, high, names, often):
    """A random field; `often`: how likely it is a star."""
    if rng.random() < often:
        return "*"

    def value():
        n = rng.randint(low, high)
        return names[n - low] if names and rng.random() < 0.3 and n - low < len(names) else str(n)

    def item():
        kind = rng.random()
        if kind < 0.5:
            return value()
        a, b = sorted([rng.randint(low, high), rng.randint(low, high)])
        text = f"{a}-{b}"
        if kind < 0.7:
            return text
        step = rng.randint(1, max(2, (high - low) // 2))
        if a == b:
            # cronsim takes 4-4/2 for 4/2, up to the end; cron and we for 4 alone.
            return str(a)
        return f"*/{step}" if kind < 0.85 else f"{text}/{step}"

    return ",".join(item() for _ in range(rng.choice([1, 1, 1, 2, 3])))


def expression(rng):
    minute = field(rng, 0, 59, None, 0.08)
    hour = field(rng, 0, 23, None, 0.25)
    if rng.random() < 0.3:
        # Around the changes of the clock.
        hour = str(rng.randint(0, 3))
    day = "L" if rng.random() < 0.1 else field(rng, 1, 31, None, 0.5)
    month = field(rng, 1, 12, MONTHS, 0.6)
    kind = rng.random()
    if kind < 0.1:
        week = f"{rng.randint(0, 6)}#{rng.randint(1, 5)}"
    elif kind < 0.2:
        week = f"{rng.randint(0, 6)}L"
    else:
        week = field(rng, 0, 6, DAYS, 0.6)
    return f"{minute} {hour} {day} {month} {week}"


def changes(zone):
    """Moments at which the zone's offset changes."""
    out, at = [], BEGIN
    while at < END:
        after = at + timedelta(hours=1)
        if at.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            out.append(after)
        at = after
    return out


def times(expr, zone, start, most):
    out = []
    for at in CronSim(expr, start.astimezone(zone)):
        at = at.astimezone(timezone.utc)
        if at >= END or len(out) >= most:
            break
        out.append(int((at - start).total_seconds()) // 60)
    return out


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)
    zones = {name: ZoneInfo(name) for name in ZONES}
    marks = {name: changes(zone) for name, zone in zones.items()}
    made = 0
    while made < count:
        expr = expression(rng)
        try:
            CronSim(expr, BEGIN)
        except Exception:  # noqa: BLE001: cronsim refuses it, for instance 31 February
            continue
        made += 1
        for name, zone in zones.items():
            starts = [(BEGIN, MOST)]
            starts += [(at - timedelta(hours=36), AROUND) for at in marks[name]]
            for start, most in starts:
                got = times(expr, zone, start, most)
                begin = int(start.timestamp())
                print(expr, name, begin, " ".join(map(str, got)), sep="\t")


main()
