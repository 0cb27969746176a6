# SPDX-License-Identifier: Apache-2.0
"""Lightning: a LightningDataModule, a LightningModule, Trainer.fit. Timed by Lightning's own profiler."""

import sys
import time

import lightning
from common import Waits, finish, work
from lightning.pytorch.profilers import SimpleProfiler
from slow_data import BATCH, Slow, model, torch


class Data(lightning.LightningDataModule):
    def __init__(self, workers):
        super().__init__()
        self.workers = workers

    def train_dataloader(self):
        return torch.utils.data.DataLoader(Slow(), batch_size=BATCH, num_workers=self.workers)  # loader


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = model()

    def training_step(self, batch, index):
        work(3)
        x, y = batch
        return torch.nn.functional.mse_loss(self.model(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Timer(SimpleProfiler):
    """Lightning says itself when it begins and ends to wait."""

    waits, action = Waits(), "[_TrainingEpochLoop].train_dataloader_next"

    def start(self, action):
        if action == self.action:
            self.began = time.monotonic_ns()

    def stop(self, action):
        if action == self.action:
            self.waits.note(self.began)

    def describe(self):
        pass


profiler = Timer()
trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, profiler=profiler,
)  # fmt: skip
trainer.fit(Module(), datamodule=Data(int(sys.argv[1])))
finish(profiler.waits, trainer.global_step)
