# SPDX-License-Identifier: Apache-2.0
"""What the zoo's training scripts have in common: a model whose work is done elsewhere while the host waits, as on an
accelerator, and the steps' own times."""

import json
import threading
import time

import torch


class Model:
    """A step costs `train_ms` on a processor that is none of the machine's CPUs: exact on a busy machine, too."""

    def __init__(self, train_ms):
        torch.set_num_threads(1)
        self.train_ms = train_ms
        self.weight = torch.nn.Parameter(torch.zeros(8))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.01)
        self.never = threading.Event()
        self.ends = []

    def step(self, batch):
        self.never.wait(self.train_ms / 1e3)
        tensor = batch if isinstance(batch, torch.Tensor) else next(value for value in batch if isinstance(value, torch.Tensor))
        self.weight.grad = tensor.reshape(-1)[:8].float()
        self.optimizer.step()
        self.ends.append(time.perf_counter())

    def print_times(self):
        """{"step_ms": mean over all but the first step, which starts the workers}"""
        print(json.dumps({"step_ms": (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1) * 1e3}))
