# SPDX-License-Identifier: Apache-2.0
"""Lightning module on tabular data with many short epochs, its data module written as the tutorial has it."""

import argparse
import logging
import time
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Patients(Dataset):
    def __init__(self, count):
        self.features = torch.rand(count, 64, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.features)

    def __getitem__(self, index):
        time.sleep(0.0005)
        row = self.features[index]
        return row, (row.sum() > 32).float()


class Data(L.LightningDataModule):
    def __init__(self, args):
        super().__init__()
        self.args = args

    def train_dataloader(self):
        workers = self.args.num_workers
        return DataLoader(Patients(self.args.rows), 32, shuffle=True, num_workers=workers, persistent_workers=self.args.persistent_workers and workers > 0)


class Classifier(L.LightningModule):
    def __init__(self, meter):
        super().__init__()
        self.net, self.meter = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)), meter

    def training_step(self, batch, index):
        x, y = batch
        loss = F.binary_cross_entropy_with_logits(self.net(x).squeeze(1), y)
        self.log("train_loss", loss)
        return loss

    def on_train_batch_end(self, *_):
        self.meter.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=4)
    parser.add_argument("--persistent-workers", action="store_true")
    parser.add_argument("--rows", type=int, default=384)
    parser.add_argument("--max-epochs", type=int, default=16)
    parser.add_argument("--log-every-n-steps", type=int, default=50)
    args = parser.parse_args()
    L.seed_everything(0)
    meter = Meter(24, 32)
    trainer = L.Trainer(accelerator="cpu", max_epochs=args.max_epochs, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=args.log_every_n_steps)
    trainer.fit(Classifier(meter), datamodule=Data(args))
    meter.print()


if __name__ == "__main__":
    main()
