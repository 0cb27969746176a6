#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what the programs of tests/abroad import into build/abroad-venv: PyTorch for the CPU, TensorFlow, JAX and the packages
# that people put on top of them, in pinned versions. About 1 GB to download and 4 GB on disk.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly place=build/abroad-venv
readonly torch=torch==2.13.0

say() { printf 'abroad: %s\n' "$*"; }

if [ -e "$place/done" ] && cmp -s "$place/done" tests/abroad/requirements.txt; then
  say "the packages are in $place"
  exit 0
fi
say "installing the packages of tests/abroad/requirements.txt into $place: about 1 GB to download, 4 GB on disk"
[ -x "$place/bin/python" ] || build/venv/bin/python -m venv "$place"
pip() { "$place/bin/python" -m pip "$@" -qq --disable-pip-version-check; }
# The build for the CPU where its index answers; else what pip finds. Plain PyPI has the CUDA build, which works but is 3 GB.
pip install --index-url https://download.pytorch.org/whl/cpu --timeout 10 --retries 0 "$torch" 2>/dev/null || pip install "$torch"
# Every package there, with its version: nothing to resolve.
pip install --no-compile --no-deps -r tests/abroad/requirements.txt
# torchvision's wheel on PyPI is for CUDA; its compiled operators are not used. Only programs that ask for it find it
# (programs/no_vision_kernels.py), because other packages import it wherever it is.
pip install --no-compile --no-deps --upgrade --target "$place/vision" torchvision==0.28.0 timm==1.0.31
cp tests/abroad/requirements.txt "$place/done"
say "done"
