# SPDX-License-Identifier: Apache-2.0
"""fastai: Learner.fit over DataLoaders. Timed from the end of each Learner.one_batch to the begin of the next."""

import sys
import time

from common import Waits, finish, work
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.learner import Learner
from fastai.optimizer import SGD
from slow_data import BATCH, Slow, model, torch

waits, steps, ended = Waits(), 0, None
one_batch = Learner.one_batch


def timed(self, *arguments):
    global ended
    if ended:
        waits.note(ended)
    one_batch(self, *arguments)
    ended = time.monotonic_ns()


Learner.one_batch = timed


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model()

    def forward(self, x):
        global steps
        work(3)
        steps += 1
        return self.model(x)


loaders = DataLoaders(
    DataLoader(Slow(), bs=BATCH, num_workers=int(sys.argv[1])),
    DataLoader(torch.utils.data.TensorDataset(torch.zeros(0, 4), torch.zeros(0, 1)), bs=BATCH),
    device=torch.device("cpu"),
)
learner = Learner(loaders, Network(), loss_func=torch.nn.functional.mse_loss, opt_func=SGD)
with learner.no_logging():
    learner.fit(1, lr=0.01)  # loader
finish(waits, steps)
