#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/build.sh PRESET [TARGET]: configures and builds quietly; TARGET is `all` unless given, and `product` is what
# using gpuwatch takes: without tests and benchmarks. The log is kept in build/PRESET.log and shown on failure, because
# a wall of compiler lines before the demo's report would hide the report. A terminal gets one line of progress.
set -uo pipefail
cd "$(dirname "$0")/.."
preset=$1
target=${2:-all}
log=build/$preset.log
mkdir -p build
started=$SECONDS
[ -t 1 ] && on_terminal=1 || on_terminal=0

# Of ninja's lines ("[12/330] Building CXX object ...") the count.
progress() {
  local line
  while IFS= read -r line; do
    [[ $on_terminal = 1 && $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    printf '\r\033[Kbuild: step %d of %d, %d s' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" $((SECONDS - started))
  done
  [ $on_terminal = 0 ] || printf '\r\033[K'
}

echo "build: $preset (build/$preset, log in $log)"
if ! { cmake --preset "$preset" && NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" --target "$target" --parallel "$(nproc)"; } 2>&1 |
  tee "$log" | progress; then
  grep -n -E -A8 'error|Error|FAILED' "$log" | head -60 >&2 || true
  echo "build: failed; the whole log is $log" >&2
  exit 1
fi
grep -E 'warning:' "$log" >&2 || true
echo "build: done in $((SECONDS - started)) s"
