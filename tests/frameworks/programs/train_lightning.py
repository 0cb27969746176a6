# SPDX-License-Identifier: Apache-2.0
"""Lightning: a LightningDataModule, a LightningModule, Trainer.fit. Timed by Lightning's own profiler."""

import sys

import lightning
from common import finish, work
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


profiler = SimpleProfiler()
trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, profiler=profiler,
)  # fmt: skip
trainer.fit(Module(), datamodule=Data(int(sys.argv[1])))
waits = profiler.recorded_durations["[_TrainingEpochLoop].train_dataloader_next"]
profiler.describe = lambda: None
finish(waits, trainer.global_step)
