#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prepares a machine to build, test and demonstrate gpuwatch: Debian 12 or 13, Ubuntu 22.04 or 24.04, as root or
# with sudo. Says what it will fetch, and how large that is, before it does. Running it again does only what is
# missing. System packages go to the system; everything else stays inside build/:
#   build/venv   Python with PyTorch, NumPy, Pillow, pytest with xdist, nvtx, formatter and linters (a PyTorch that python3 already imports is used)
#   build/cuda   link to the CUDA 13 toolkit, or to the vendor's Python packages in build/nvidia*
#   build/nccl   link to the folder whose include/ holds nccl.h
#
#   --vendor-packages   take the vendor's Python packages even where a toolkit is installed
#   --no-system         leave the system's packages alone (they were installed in some other way)
set -euo pipefail
cd "$(dirname "$0")/.."

readonly system_packages=(
  g++ make cmake ninja-build git binutils flatbuffers-compiler libflatbuffers-dev libfmt-dev
  libgtest-dev libbenchmark-dev libcli11-dev nlohmann-json3-dev libsimdjson-dev libprotozero-dev libjs-dygraphs zlib1g-dev python3-venv python3-dev libpython3-dev)

# One version of formatter and linters for everybody: two versions never agree on every line.
readonly python_packages=(numpy pillow pytest pytest-xdist nvtx==0.2.17 clang-format==14.0.6 clang-tidy==23.1.4 ruff==0.17.6 rich==15.0.0
  perfetto==0.59.1 protobuf==7.36.2 hatchling==1.33.0 auditwheel==6.8.2
  pandas pyarrow prometheus-client tensorboard)
readonly torch_version=2.13.0

# CUDA 13.0, the first release with the library names that the simulated device stands in for.
readonly cuda_packages=(
  nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85 nvidia-cuda-cupti==13.0.85 nvidia-nvtx==13.0.85)
readonly nccl_package=nvidia-nccl-cu13==2.28.9

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

with_system=1
with_toolkit=1
for option in "$@"; do
  case $option in
    --vendor-packages) with_toolkit=0 ;;
    --no-system) with_system=0 ;;
    *) fail "unknown option $option (known: --vendor-packages, --no-system)" ;;
  esac
done
[ "$(uname -sm)" = "Linux x86_64" ] || fail "gpuwatch is for Linux on x86-64; this is $(uname -sm)"

# ---- system packages ------------------------------------------------------------------------------------------------

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "not root and no sudo; as root, run: $*"
  fi
}

# The system's Python modules are checked by package, not by command: a cmake in some other folder of PATH may be
# gone tomorrow, and headers have no command.
missing_system_packages() {
  local package
  for package in "${system_packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || echo "$package"
  done
}

install_system_packages() {
  command -v apt-get >/dev/null ||
    fail "only Debian and Ubuntu are set up automatically; install the equivalents of: ${system_packages[*]}; then run: scripts/setup.sh --no-system"
  local missing
  mapfile -t missing < <(missing_system_packages)
  if [ ${#missing[@]} -eq 0 ]; then
    say "system packages: all there"
    return
  fi
  as_root apt-get -qq update || say "apt-get update failed; trying with the package lists at hand"
  local bytes
  bytes=$(apt-get -qq --print-uris --no-install-recommends install "${missing[@]}" | awk '{sum += $3} END {print sum + 0}')
  say "system packages: installing ${missing[*]} ($((bytes / 1000000)) MB to download, with what they need)"
  # debconf complains on stderr of a missing dialog; who reads this has nothing to do about it.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 --no-install-recommends install -y "${missing[@]}" >build/setup-apt.log 2>&1 || {
    cat build/setup-apt.log >&2
    fail "apt-get could not install ${missing[*]} (its messages are above)"
  }
}

# ---- Python ---------------------------------------------------------------------------------------------------------

readonly python=build/venv/bin/python
# Twice quiet: errors only. pip warns of each folder of the user's configuration in which a package is not.
pip_install() { "$python" -m pip install -qq --disable-pip-version-check --no-input "$@"; }

# The first interpreter that PyTorch supports and that can make an environment. The user's own comes first, because
# that is the one that may already hold a CUDA build of PyTorch.
choose_interpreter() {
  local candidate
  for candidate in python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  fail "no Python 3.10 or newer with the venv module found"
}

# Where an interpreter finds PyTorch, if importing it works. The import itself is tried, because a broken one does not count.
site_of_torch() {
  "$1" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).resolve().parent.parent)' 2>/dev/null || true
}

make_environment() {
  local interpreter site
  if ! "$python" -m pip --version >/dev/null 2>&1; then
    interpreter=$(choose_interpreter)
    say "Python environment: build/venv, from $interpreter ($("$interpreter" --version))"
    rm -rf build/venv
    "$interpreter" -m venv build/venv
    site=$(site_of_torch "$interpreter")
    if [ -n "$site" ]; then
      say "PyTorch: using the one in $site"
      echo "$site" >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/existing-torch.pth"
    fi
  fi
  install_python_packages
  [ -n "$(site_of_torch "$python")" ] || install_torch
  say "Python environment: $("$python" -c 'import sys, torch, numpy; print("Python %d.%d" % sys.version_info[:2] + ", PyTorch", torch.__version__, "(with CUDA)" if torch.version.cuda else "(CPU only)")')"
}

install_python_packages() {
  if "$python" - "${python_packages[@]}" <<'PYTHON'; then return; fi
import importlib.metadata as metadata, sys
for wanted in sys.argv[1:]:
    name, _, version = wanted.partition("==")
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        sys.exit(1)
    if version and found != version:
        sys.exit(1)
PYTHON
  say "Python packages: installing ${python_packages[*]} (about 163 MB)"
  pip_install "${python_packages[@]}" || fail "pip could not install ${python_packages[*]} (its messages are above)"
}

# Plain PyPI offers the CUDA build, which brings gigabytes of libraries that are of no use without a GPU; the
# project's own index has a small build for the CPU. A GPU user has PyTorch already, and then this is not reached.
install_torch() {
  if command -v nvidia-smi >/dev/null && nvidia-smi >/dev/null 2>&1; then
    say "a GPU is here, but python3 has no PyTorch: taking the CPU build; to use the GPU, install PyTorch with CUDA, remove build/venv and run this again"
  fi
  say "PyTorch: installing torch $torch_version for the CPU (about 200 MB)"
  pip_install --index-url https://download.pytorch.org/whl/cpu --timeout 10 --retries 0 "torch==$torch_version" >build/setup-torch.log 2>&1 && return
  say "PyTorch: pytorch.org did not answer; asking pip's own index. If that holds only the CUDA build, this downloads about 3 GB"
  pip_install "torch==$torch_version" || fail "pip could not install torch==$torch_version (its messages are above; first attempt: build/setup-torch.log)"
}

# ---- the vendor's headers and nvcc ----------------------------------------------------------------------------------

# A toolkit counts if it is complete (compiler, runtime and CUPTI headers) and of release 13.
is_cuda13() {
  [ -x "$1/bin/nvcc" ] && grep -qs '^#define CUDART_VERSION  *13' "$1/include/cuda_runtime_api.h" &&
    { [ -f "$1/include/cupti.h" ] || [ -f "$1/extras/CUPTI/include/cupti.h" ]; }
}

find_toolkit() {
  [ "$with_toolkit" -eq 1 ] || return 0
  local root
  for root in "${CUDA_HOME:-}" /usr/local/cuda /usr/local/cuda-13 /usr/local/cuda-13.*; do
    if [ -n "$root" ] && is_cuda13 "$root"; then
      echo "$root"
      return
    fi
  done
}

# Links inside build/ are relative, so that a checkout can be moved.
link_in_build() { ln -sfn "${1#"$PWD"/build/}" "build/$2"; }

install_cuda() {
  local root packaged=build/nvidia/nvidia/cu13
  root=$(find_toolkit)
  if [ -z "$root" ]; then
    if ! is_cuda13 $packaged; then
      say "CUDA compiler and headers: no CUDA 13 toolkit found; unpacking the vendor's Python packages into build/nvidia (115 MB)"
      pip_install --no-deps --upgrade --target build/nvidia "${cuda_packages[@]}" || fail "pip could not fetch ${cuda_packages[*]} (its messages are above)"
      # The packages are laid out for use at run time; nvcc links against lib64/libcudart.so.
      ln -sfn lib $packaged/lib64
      ln -sf libcudart.so.13 $packaged/lib/libcudart.so
    fi
    root=$PWD/$packaged
  fi
  link_in_build "$root" cuda
  say "CUDA compiler and headers: $root"
}

# In a separate folder: pip --target replaces the whole top folder `nvidia` that two packages share.
find_nccl() {
  local root site
  site=$(site_of_torch "$python")
  for root in "$(readlink -f build/cuda)" /usr /usr/local "$site/nvidia/nccl" "$PWD/build/nvidia-nccl/nvidia/nccl"; do
    if [ -f "$root/include/nccl.h" ]; then
      echo "$root"
      return
    fi
  done
}

install_nccl() {
  local root
  root=$(find_nccl)
  if [ -z "$root" ]; then
    say "NCCL header: fetching the vendor's Python package for it (196 MB, because the library comes along)"
    pip_install --no-deps --upgrade --target build/nvidia-nccl "$nccl_package" || fail "pip could not fetch $nccl_package (its messages are above)"
    root=$(find_nccl)
  fi
  link_in_build "$root" nccl
  say "NCCL header: $root/include/nccl.h"
}

mkdir -p build
[ "$with_system" -eq 0 ] || install_system_packages
make_environment
install_cuda
install_nccl
say "done"
