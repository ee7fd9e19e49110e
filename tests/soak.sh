#!/usr/bin/env bash
# Random kills (-9) and freezes (longer than T) of leaders, candidates, cbls, cbexe, spawners and
# shepherds under a steady stream of jobs: tests/soak.sh [SECONDS [KILLS [JOBS_PER_SECOND [CALM]]]];
# 600 s, 200 kills, 20 jobs/s unless told otherwise, then CALM (180) seconds of the same load without
# kills, so that memory shows its slope. JSON lines at the end; fails when a job was lost or ran
# twice or a process is left over. A failing run prints its seed; CORRAL_SOAK_SEED=N repeats its
# choices.
set -euo pipefail
cd "$(dirname "$0")/.."
export CORRAL_SOAK_SECONDS=${1:-600} CORRAL_SOAK_KILLS=${2:-200} CORRAL_SOAK_RATE=${3:-20}
export CORRAL_SOAK_CALM=${4:-180}
exec cargo test --quiet --locked --test it -- --nocapture --exact \
    soak::random_kills_lose_nothing_and_run_nothing_twice
