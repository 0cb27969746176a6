#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/build_wheel.sh [wheel] [tarball]: makes the packages that run on every Linux with glibc 2.28 or newer, in dist/,
# from build/release (`make build` comes first). Each step checks what it made, and the script ends at the first that fails.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly python=build/venv/bin/python prefix=build/packages/prefix
[ $# -gt 0 ] || set -- wheel

scripts/check_library.sh build/release
$python scripts/packages/link_portable.py build/release
$python scripts/packages/lay_out.py $prefix --program build/packages/portable/gpuwatch
# What was laid out must start, print the version, and find the library, before it is packed.
$prefix/bin/gpuwatch --version
[ "$($prefix/bin/gpuwatch lib)" = "$PWD/$prefix/lib/libgpuwatch.so" ] || [[ $PWD == *[\ :]* ]] || { echo "packages: gpuwatch lib does not find its library" >&2; exit 1; }
for kind in "$@"; do
  $python "scripts/packages/pack_$kind.py" $prefix
done
