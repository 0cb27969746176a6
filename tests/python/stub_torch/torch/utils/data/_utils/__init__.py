# SPDX-License-Identifier: Apache-2.0
from . import fetch, worker  # noqa: F401
