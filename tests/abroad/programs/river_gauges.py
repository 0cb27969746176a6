# SPDX-License-Identifier: Apache-2.0
"""transformers.Trainer: the discharge of rivers in the next week from a year of weather and the catchment's attributes. The year is cut
into patches of some days, as in PatchTST. The past year of every gauge is in memory."""

import argparse
import tempfile

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

WEATHER, ATTRIBUTES = 6, 20


class Catchments(Dataset):
    """Rain is stored and runs off, faster in small catchments."""

    def __init__(self, gauges, days, past, future, seed=31):
        rng = np.random.default_rng(seed)
        self.past, self.future, self.starts = past, future, days - past - future
        self.weather = rng.normal(0, 1, (gauges, days, WEATHER)).astype(np.float32)
        self.weather[..., 0] = np.sin(np.arange(days) / 365 * 6.283) + 0.3 * self.weather[..., 0]
        rain = np.maximum(0, self.weather[..., 1] + 0.5 * self.weather[..., 0])
        self.attributes = rng.uniform(0, 1, (gauges, ATTRIBUTES)).astype(np.float32)
        self.discharge, store = np.zeros((gauges, days), np.float32), np.zeros(gauges)
        for day in range(days):
            store += rain[:, day]
            self.discharge[:, day] = run_off = store * (0.05 + 0.3 * self.attributes[:, 0])
            store -= run_off
        self.discharge = np.log1p(self.discharge)

    def __len__(self):
        return len(self.discharge) * self.starts

    def __getitem__(self, index):
        gauge, start = divmod(index, self.starts)
        now = start + self.past
        return {
            "weather": self.weather[gauge, start:now],
            "discharge": self.discharge[gauge, start:now],
            "attributes": self.attributes[gauge],
            "labels": self.discharge[gauge, now : now + self.future],
        }


class PatchForecaster(nn.Module):
    def __init__(self, past, future, patch, dim, heads, depth):
        super().__init__()
        self.patch = nn.Conv1d(WEATHER + 1, dim, patch, stride=patch)
        self.catchment = nn.Sequential(nn.Linear(ATTRIBUTES, dim), nn.GELU(), nn.Linear(dim, dim))
        self.places = nn.Parameter(torch.randn(past // patch, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, future)

    def forward(self, weather, discharge, attributes, labels=None):
        series = torch.cat([weather, discharge[..., None]], 2).transpose(1, 2)
        tokens = self.patch(series).transpose(1, 2) + self.places
        tokens = torch.cat([self.catchment(attributes)[:, None], tokens], 1)
        predicted = discharge[:, -1:] + self.head(self.encoder(tokens)[:, 0])
        loss = None if labels is None else nn.functional.smooth_l1_loss(predicted, labels)
        return {"loss": loss, "logits": predicted}


class Timer(TrainerCallback):
    def __init__(self, meter):
        self.meter = meter

    def on_step_end(self, args, state, control, **kwargs):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--past-days", type=int, default=364)
    parser.add_argument("--future-days", type=int, default=7)
    parser.add_argument("--patch-days", type=int, default=7)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--per-device-train-batch-size", type=int, default=48)
    parser.add_argument("--max-steps", type=int, default=150)
    parser.add_argument("--dataloader-num-workers", type=int, default=0)
    parser.add_argument("--dataloader-prefetch-factor", type=int, default=2)
    parser.add_argument("--optim", default="adamw_torch")
    parser.add_argument("--logging-steps", type=int, default=25)
    args = parser.parse_args()

    model = PatchForecaster(args.past_days, args.future_days, args.patch_days, args.dim, args.heads, args.depth)
    meter = Meter(15, args.per_device_train_batch_size)
    with tempfile.TemporaryDirectory() as output_dir:
        training_args = TrainingArguments(
            output_dir=output_dir,
            per_device_train_batch_size=args.per_device_train_batch_size,
            max_steps=args.max_steps,
            learning_rate=5e-4,
            weight_decay=0.05,
            warmup_ratio=0.1,
            lr_scheduler_type="cosine",
            optim=args.optim,
            logging_steps=args.logging_steps,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            dataloader_num_workers=args.dataloader_num_workers,
            dataloader_prefetch_factor=args.dataloader_prefetch_factor if args.dataloader_num_workers else None,
            dataloader_persistent_workers=args.dataloader_num_workers > 0,
            dataloader_pin_memory=False,
            seed=31,
        )
        data = Catchments(gauges=500, days=1500, past=args.past_days, future=args.future_days)
        trainer = Trainer(model=model, args=training_args, train_dataset=data, callbacks=[Timer(meter)])
        trainer.train()
    meter.print()


if __name__ == "__main__":
    main()
