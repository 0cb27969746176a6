# SPDX-License-Identifier: Apache-2.0
"""Ends before its first training step.

python broken.py HOW      exit, raise, out_of_memory, forward, kill, quick_exit, loader, sound: no error, and no training
"""

import os
import signal
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader


class BadData:
    def __len__(self):
        return 8

    def __getitem__(self, i):
        raise ValueError("no such sample")


def main():
    how = sys.argv[1]
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))).cuda()
    torch.optim.AdamW(model.parameters())
    if how == "exit":
        sys.exit(3)
    if how == "raise":
        raise RuntimeError("wrong configuration")
    if how == "out_of_memory":
        torch.empty(1 << 40, device="cuda")
    if how == "forward":
        model(torch.randn(4, 512, device="cuda"))
        model(torch.randn(4, 100, device="cuda"))
    if how == "loader":
        next(iter(DataLoader(BadData(), num_workers=1)))
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "quick_exit":
        os._exit(4)


if __name__ == "__main__":
    main()
