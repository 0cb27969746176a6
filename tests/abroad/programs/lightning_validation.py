# SPDX-License-Identifier: Apache-2.0
"""Lightning with a Trainer that validates several times an epoch, on loaders that are fast."""

import argparse
import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Regressor(L.LightningModule):
    def __init__(self, meter, width):
        super().__init__()
        self.net, self.meter = nn.Sequential(nn.Linear(128, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)), meter

    def training_step(self, batch, index):
        loss = F.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", F.mse_loss(self.net(batch[0]), batch[1]))

    def on_train_batch_end(self, *_):
        self.meter.step()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--val-check-interval", type=int, default=15)
    parser.add_argument("--limit-val-batches", type=int, default=30)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--width", type=int, default=700)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    L.seed_everything(0)

    def loader(rows):
        return DataLoader(TensorDataset(torch.rand(rows, 128), torch.rand(rows, 1)), 64, num_workers=args.num_workers)

    meter = Meter(20, 64)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        val_check_interval=min(args.val_check_interval, args.steps), limit_val_batches=args.limit_val_batches, num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(Regressor(meter, args.width), loader(64 * args.steps), loader(64 * 60))
    meter.print()


if __name__ == "__main__":
    main()
