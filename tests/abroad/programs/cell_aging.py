# SPDX-License-Identifier: Apache-2.0
"""Lightning: the remaining cycles of battery cells from their charging curves. A callback keeps the history of the run in a file."""

import argparse
import json
import os
import tempfile
from pathlib import Path

import lightning as L
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_curves(count, points=128):
    """Voltage, current, temperature and capacity while a cell is charged; older cells are warmer and sag more."""
    generator = torch.Generator().manual_seed(8)
    age = torch.rand(count, 1, generator=generator)
    t = torch.linspace(0, 1, points).expand(count, points)
    voltage = 3.2 + 0.9 * (1 - torch.exp(-t * (4 - 2 * age)))
    current = torch.where(t < 0.7 - 0.2 * age, torch.ones_like(t), torch.exp(-6 * (t - 0.7 + 0.2 * age)))
    temperature = 0.25 + 0.1 * age * current.cumsum(1) / points
    curves = torch.stack([voltage, current, temperature, current.cumsum(1) / points], 1)
    return curves + 0.01 * torch.randn(curves.shape, generator=generator), 1 - age.squeeze(1)


class History(L.Callback):
    """Loss, learning rate and the norms of every layer, for the notebook that draws the curves."""

    def __init__(self, path, every, lines):
        self.path, self.every, self.lines, self.history = path, every, lines, []

    def on_before_optimizer_step(self, trainer, module, optimizer):
        self.gradients = {name: p.grad.norm() for name, p in module.named_parameters()}

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        weights = {name: p.detach().norm() for name, p in module.named_parameters()}
        entry = {
            "step": trainer.global_step,
            "epoch": trainer.current_epoch,
            "loss": outputs["loss"].item(),
            "lr": trainer.optimizers[0].param_groups[0]["lr"],
            "gradients": {name: value.item() for name, value in self.gradients.items()},
            "weights": {name: value.item() for name, value in weights.items()},
        }
        self.history.append(entry)
        if trainer.global_step % self.every:
            return
        if self.lines:
            with open(self.path, "a") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in self.history[-self.every :])
        else:
            with open(self.path, "w") as file:
                json.dump(self.history, file, indent=2)


class Tick(L.Callback):
    def __init__(self, meter):
        self.meter = meter

    def on_train_batch_end(self, *_):
        self.meter.step()


class CellAge(L.LightningModule):
    def __init__(self, width, lr):
        super().__init__()
        self.lr = lr
        layers, inputs = [], 4
        for outputs in (width, width, 2 * width, 2 * width, 4 * width, 4 * width):
            layers += [nn.Conv1d(inputs, outputs, 5, 2 if outputs > inputs else 1, 2), nn.GroupNorm(4, outputs), nn.GELU()]
            inputs = outputs
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(inputs, 64), nn.GELU(), nn.Linear(64, 1))

    def training_step(self, batch, batch_idx):
        curves, remaining = batch
        loss = nn.functional.huber_loss(self.net(curves).squeeze(1), remaining)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--cells", type=int, default=3200)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--history-every", type=int, default=1, help="steps from one writing of the file to the next")
    parser.add_argument("--history-lines", action="store_true", help="one JSON object a line instead of one list")
    parser.add_argument("--log-every-n-steps", type=int, default=50)
    args = parser.parse_args()
    L.seed_everything(8, verbose=False)
    loader = DataLoader(
        TensorDataset(*make_curves(args.cells)), args.batch_size, shuffle=True, drop_last=True, num_workers=args.num_workers,
        persistent_workers=args.num_workers > 0,
    )  # fmt: skip
    meter = Meter(20, args.batch_size)
    with tempfile.TemporaryDirectory(dir=os.environ.get("ABROAD_DISK")) as folder:
        trainer = L.Trainer(
            accelerator="cpu", max_epochs=args.epochs, logger=False, log_every_n_steps=args.log_every_n_steps, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
            callbacks=[History(Path(folder) / "history.json", args.history_every, args.history_lines), Tick(meter)],
        )  # fmt: skip
        trainer.fit(CellAge(args.width, args.lr), loader)
    meter.print()


if __name__ == "__main__":
    main()
