# SPDX-License-Identifier: Apache-2.0
from .dataloader import DataLoader  # noqa: F401
