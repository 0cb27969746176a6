#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/build.sh PRESET: configures and builds quietly. The log is kept in build/PRESET.log and shown on failure,
# because a wall of compiler lines before the demo's report would hide the report.
set -uo pipefail
cd "$(dirname "$0")/.."
preset=$1
log=build/$preset.log
mkdir -p build
started=$SECONDS
echo "build: $preset (build/$preset, log in $log)"
if ! { cmake --preset "$preset" && cmake --build --preset "$preset" --parallel "$(nproc)"; } >"$log" 2>&1; then
  grep -n -E -A8 'error|Error|FAILED' "$log" | head -60 >&2 || true
  echo "build: failed; the whole log is $log" >&2
  exit 1
fi
grep -E 'warning:' "$log" >&2 || true
echo "build: done in $((SECONDS - started)) s"
