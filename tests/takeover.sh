#!/usr/bin/env bash
# Kills the leader again and again under a stream of short jobs and measures for how long no job
# starts: tests/takeover.sh [KILLS [T [stop]]]; 30 kills and T = 3 s unless told otherwise; "stop"
# freezes the leader instead. JSON lines at the end; fails when the 99th percentile is over 10 s.
set -euo pipefail
cd "$(dirname "$0")/.."
export CORRAL_TAKEOVER_KILLS=${1:-30} CORRAL_TAKEOVER_LEASE=${2:-3} CORRAL_TAKEOVER_HOW=${3:-kill}
exec cargo test --quiet --locked --workspace --test it -- --ignored --nocapture --exact takeover::pauses
