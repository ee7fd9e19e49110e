#!/usr/bin/env bash
# Every file operation of the daemons on the share takes 200 ms, under a steady stream of jobs, for
# ten minutes: nobody may take over from a leader that is merely slow.
# tests/slow.sh [SECONDS [T [MILLISECONDS [JOBS_PER_SECOND]]]]; 600 s, T = 15 s, 200 ms, 20 jobs/s
# unless told otherwise. JSON lines at the end; fails when there was a takeover (T of 15 s or more)
# or a job did not run exactly once.
set -euo pipefail
cd "$(dirname "$0")/.."
export CORRAL_SLOW_SECONDS=${1:-600} CORRAL_SLOW_LEASE=${2:-15} CORRAL_SLOW_MS=${3:-200}
export CORRAL_SLOW_RATE=${4:-20}
exec cargo test --quiet --locked --workspace --test it -- --ignored --nocapture --exact \
    takeover::no_takeover_while_operations_are_slow
