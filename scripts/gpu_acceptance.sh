#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The acceptance run on a machine with a GPU: scripts/gpu_acceptance/acceptance.py by the Python that has PyTorch, else any.
here=$(cd "$(dirname "$0")" && pwd)
has_torch() { "$1" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' 2>/dev/null; }
for python in ${PYTHON:-python3 python "$here/../build/venv/bin/python"}; do
  has_torch "$python" && break
done
has_torch "$python" || python=${PYTHON:-python3}
exec "$python" "$here/gpu_acceptance/acceptance.py" "$@"
