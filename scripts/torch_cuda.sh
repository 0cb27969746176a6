#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the CUDA build of PyTorch into build/torch-cuda, a separate virtual environment, for tests/torch_cuda, without the
# NVIDIA libraries that it requires: the simulated device replaces them. Says first how much it downloads.
#   --triton                  also installs the required Triton into build/triton, for tests of torch.compile
#   --fetch-only              leaves out the build of the libraries that the simulated device puts in their place
#   TORCH_CUDA_WHEEL=<file>   installs this wheel instead of downloading one
set -euo pipefail
cd "$(dirname "$0")/.."

readonly torch_version=2.13.0
readonly requirements=(filelock typing_extensions sympy mpmath networkx jinja2 MarkupSafe fsspec numpy pillow setuptools)
readonly place=build/torch-cuda triton_place=build/triton

say() { printf 'torch-cuda: %s\n' "$*"; }

with_triton=0 with_build=1
for option in "$@"; do
  case $option in
    --triton) with_triton=1 ;;
    --fetch-only) with_build=0 ;;
    *) say "unknown option $option (known: --triton, --fetch-only)" >&2; exit 1 ;;
  esac
done

# An installation that was interrupted has some of them.
is_complete() {
  "$place/bin/python" -c 'import importlib.metadata as m, sys
sys.exit(m.version("torch") != sys.argv[1] or not all(map(m.version, sys.argv[2:])))' "$torch_version" "${requirements[@]}" 2>/dev/null
}

if is_complete; then
  say "PyTorch $torch_version is in $place"
else
  if [ -n "${TORCH_CUDA_WHEEL:-}" ]; then
    say "installing $TORCH_CUDA_WHEEL into $place (1.4 GB there)"
  else
    say "fetching PyTorch $torch_version with CUDA from the package index into $place: 526 MB to download, 1.4 GB there"
  fi
  build/venv/bin/python -m venv "$place"
  # Three signs: exactly this version, so no 2.13.0+cpu that some other index may hold.
  "$place/bin/pip" install -qq --disable-pip-version-check --no-deps "${TORCH_CUDA_WHEEL:-torch===$torch_version}" "${requirements[@]}" || {
    rm -rf "$place"
    exit 1
  }
fi
[ -e "$place"/lib/python3*/site-packages/torch/lib/libtorch_cuda.so ] || {
  say "the installed PyTorch has no CUDA" >&2
  exit 1
}
required_triton() {
  "$place/bin/python" -c 'import importlib.metadata as m, re
print(next(re.match(r"triton==([\d.]+)", need)[1] for need in m.requires("torch") if need.startswith("triton==")))'
}
if [ $with_triton = 1 ] && ! compgen -G "$triton_place/triton-$(required_triton).dist-info" >/dev/null; then
  say "fetching Triton $(required_triton) from the package index into $triton_place: 198 MB to download, 0.7 GB there"
  rm -rf "$triton_place"
  "$place/bin/pip" install -qq --disable-pip-version-check --no-deps --target "$triton_place" "triton==$(required_triton)" || {
    rm -rf "$triton_place"
    exit 1
  }
fi
# The stubs are made from what the wheel wants.
[ $with_build = 0 ] || scripts/build.sh release product
