# SPDX-License-Identifier: Apache-2.0
"""What the zoo's training scripts have in common: a model whose work is done elsewhere while the host waits, as on an
accelerator, and the steps' own times."""

import json
import threading
import time

import torch


def run_delay_ns():
    """How long this thread could have run and had no CPU: the kernel's own account of it."""
    with open("/proc/thread-self/schedstat") as account:
        return int(account.read().split()[1])


class Clock:
    """The steps' own times."""

    def __init__(self):
        self.ends, self.delays = [], []

    def end_step(self):
        self.ends.append(time.perf_counter())
        self.delays.append(run_delay_ns())

    def print_times(self):
        """{"step_ms": mean over all but the first step, which starts the workers,
        "run_delay_share": of that time, waiting for a CPU}"""
        seconds = self.ends[-1] - self.ends[0]
        share = (self.delays[-1] - self.delays[0]) / 1e9 / seconds
        print(json.dumps({"step_ms": seconds / (len(self.ends) - 1) * 1e3, "run_delay_share": share}))


class Model(Clock):
    """A step costs `train_ms` on a processor that is none of the machine's CPUs: exact on a busy machine, too."""

    def __init__(self, train_ms):
        super().__init__()
        torch.set_num_threads(1)
        self.train_ms = train_ms
        self.weight = torch.nn.Parameter(torch.zeros(8))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.01)
        self.never = threading.Event()

    def step(self, batch):
        self.never.wait(self.train_ms / 1e3)
        tensor = batch if isinstance(batch, torch.Tensor) else next(value for value in batch if isinstance(value, torch.Tensor))
        self.weight.grad = tensor.reshape(-1)[:8].float()
        self.optimizer.step()
        self.end_step()
