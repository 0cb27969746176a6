#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that C++ sources are formatted by .clang-format; with --fix, formats them. The version is fixed (setup.sh
# installs it), because two versions of clang-format never agree on every line.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly version=14

for formatter in build/venv/bin/clang-format clang-format-$version clang-format; do
  "$formatter" --version 2>/dev/null | grep -q "version $version\." && break
  formatter=
done
[ -n "$formatter" ] || { echo "check_format: clang-format $version not found; run scripts/setup.sh" >&2; exit 1; }

mapfile -t sources < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cc' '*.c' '*.cu' '*.cuh' |
  while read -r file; do [ -f "$file" ] && echo "$file"; done)
[ ${#sources[@]} -gt 0 ] || { echo "check_format: no sources found" >&2; exit 1; }

if [ "${1:-}" = --fix ]; then
  "$formatter" -i "${sources[@]}"
elif ! "$formatter" --dry-run -Werror "${sources[@]}" 2>build/format.log; then
  grep -E 'error:' build/format.log | cut -d: -f1 | sort | uniq -c | awk '{print "check_format: " $2 ": " $1 " places"}' >&2
  echo "check_format: run 'make fmt'" >&2
  exit 1
else
  echo "check_format: ${#sources[@]} files"
fi
