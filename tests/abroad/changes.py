# SPDX-License-Identifier: Apache-2.0
"""Changes that many programs have, and the names of causes in them."""

from abroad_case import Fix, fix

WORKERS = "dataloader-workers"


def workers(option, *numbers):
    """More loader processes (or threads): whatever number the report names can be tried."""
    return [fix(WORKERS, f"{option} {number}", num_workers=option) for number in numbers]


PREFETCH = "--prefetch-factor"
# What any job on the CPU may be started with: malloc keeps what was freed.
KEPT_MEMORY = Fix(("page-faults",), (), env={"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1073741824:glibc.malloc.mmap_threshold=1073741824"})
NO_TF = {"USE_TF": "0", "USE_FLAX": "0"}  # transformers imports what it finds, and does not like this Keras
PRECISION = "mixed-precision"
