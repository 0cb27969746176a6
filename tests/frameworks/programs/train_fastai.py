# SPDX-License-Identifier: Apache-2.0
"""fastai: Learner.fit over DataLoaders. Timed around next() of the training loader."""

import sys

from common import Waits, finish, work
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.learner import Learner
from fastai.optimizer import SGD
from slow_data import BATCH, Slow, model, torch

waits, steps = Waits(), 0
iterate = DataLoader.__iter__
DataLoader.__iter__ = lambda self: waits.around(iterate(self))


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
    DataLoader(Slow(), bs=BATCH, num_workers=int(sys.argv[1])),  # loader
    DataLoader(torch.utils.data.TensorDataset(torch.zeros(0, 4), torch.zeros(0, 1)), bs=BATCH),
    device=torch.device("cpu"),
)
learner = Learner(loaders, Network(), loss_func=torch.nn.functional.mse_loss, opt_func=SGD)
with learner.no_logging():
    learner.fit(2, lr=0.01)
finish(waits, steps)
