# SPDX-License-Identifier: Apache-2.0
"""A stand-in for PyTorch on interpreters that have none: the classes and methods that gpuwatch wraps, under the same
names and with the same protocol between loader and workers, and nothing else. Workers are real processes."""

import gc  # noqa: F401  (the real one imports it, too)

from . import optim, serialization, utils  # noqa: F401
from .serialization import save  # noqa: F401
from .utils import data  # noqa: F401

__version__ = "0.0+stub"


class version:
    cuda = None
