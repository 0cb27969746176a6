# SPDX-License-Identifier: Apache-2.0
"""Sleep stages from two EEG channels, epochs of 30 seconds. Lightning; moved here from the group's 16-core server with its settings."""

import argparse
import warnings
from dataclasses import dataclass

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
RATE, SECONDS, STAGES = 100, 30, 5


@dataclass
class Settings:
    nights: int = 3
    batch_size: int = 32
    num_workers: int = 2
    prefetch_factor: int = 2
    threads: int = 16
    width: int = 16
    max_steps: int = 90
    log_every_n_steps: int = 50


class Hypnogram(Dataset):
    """Epochs of recorded nights, a little shifted and scaled each time."""

    def __init__(self, nights):
        rng = np.random.default_rng(9)
        self.stages = rng.integers(0, STAGES, nights * 960)
        t = np.arange(RATE * SECONDS, dtype=np.float32) / RATE
        hertz = np.array([10, 6, 13, 1.5, 5], np.float32)[self.stages]
        tone = np.sin(6.283 * hertz[:, None] * t + rng.uniform(0, 6, (len(hertz), 1)))
        self.signal = (tone[:, None] + rng.normal(0, 1, (len(hertz), 2, len(t)))).astype(np.float32)

    def __len__(self):
        return len(self.stages)

    def __getitem__(self, i):
        x = torch.from_numpy(self.signal[i]).roll(int(torch.randint(-50, 50, (1,))), 1)
        return x * (0.8 + 0.4 * torch.rand(2, 1)), int(self.stages[i])


class Nights(L.LightningDataModule):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings

    def setup(self, stage=None):
        self.train = Hypnogram(self.settings.nights)

    def train_dataloader(self):
        s = self.settings
        many = {"prefetch_factor": s.prefetch_factor, "persistent_workers": True} if s.num_workers else {}
        return DataLoader(self.train, s.batch_size, shuffle=True, drop_last=True, num_workers=s.num_workers, **many)


class Sleeper(L.LightningModule):
    """Two branches with short and long filters, then a GRU over the features (after DeepSleepNet)."""

    def __init__(self, width):
        super().__init__()
        self.short = self.branch(width, 50, 6, 8)
        self.long = self.branch(width, 200, 25, 6)
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(3 * width, STAGES)

    @staticmethod
    def branch(width, kernel, stride, after):
        def conv(inputs, size, step=1):
            return [nn.Conv1d(inputs, width, size, step, size // 2, bias=False), nn.BatchNorm1d(width), nn.ReLU()]

        return nn.Sequential(*conv(2, kernel, stride), nn.MaxPool1d(4), *conv(width, after), *conv(width, after), nn.MaxPool1d(2))

    def forward(self, x):
        states, _ = self.gru(self.short(x).transpose(1, 2))
        return self.out(torch.cat([states.mean(1), self.long(x).mean(2)], 1))

    def training_step(self, batch, _):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        self.log("loss", loss, prog_bar=False)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)


class Clock(L.Callback):
    def __init__(self, batch_size):
        self.meter = Meter(15, batch_size)

    def on_train_batch_end(self, *_):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    for name, value in vars(Settings()).items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    settings = Settings(**vars(parser.parse_args()))
    L.seed_everything(9, verbose=False)
    torch.set_num_threads(settings.threads)
    clock = Clock(settings.batch_size)
    trainer = L.Trainer(
        max_steps=settings.max_steps, accelerator="cpu", callbacks=[clock], log_every_n_steps=settings.log_every_n_steps,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Sleeper(settings.width), datamodule=Nights(settings))
    print("loss", float(trainer.callback_metrics["loss"]))
    clock.meter.print()


if __name__ == "__main__":
    main()
