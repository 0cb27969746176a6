# SPDX-License-Identifier: Apache-2.0
"""transformers.Trainer on a datasets table of electrocardiograms: the signal is a column of floats, the collator stacks it."""

import argparse
import tempfile

import torch
from datasets import load_from_disk
from meter import Meter
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments, default_data_collator


class ResNet1d(nn.Module):
    def __init__(self, leads, classes, width=32):
        super().__init__()
        self.leads = leads
        self.stem = nn.Sequential(nn.Conv1d(leads, width, 15, stride=4, padding=7), nn.BatchNorm1d(width), nn.ReLU())
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv1d(width, width, 7, padding=3), nn.BatchNorm1d(width), nn.ReLU(), nn.Conv1d(width, width, 7, padding=3))
            for _ in range(3)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, signal, labels=None):
        x = self.stem(signal.view(len(signal), self.leads, -1))
        for block in self.blocks:
            x = torch.nn.functional.avg_pool1d(torch.relu(x + block(x)), 2)
        logits = self.head(x.mean(2))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Timer(TrainerCallback):
    def __init__(self, meter):
        self.meter = meter

    def on_step_end(self, args, state, control, **kwargs):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--format", choices=["none", "numpy", "torch"], default="none", help="what with_format() makes of the columns")
    parser.add_argument("--dataloader-num-workers", type=int, default=0)
    parser.add_argument("--dataloader-prefetch-factor", type=int, default=2)
    parser.add_argument("--logging-steps", type=int, default=50)
    parser.add_argument("--per-device-train-batch-size", type=int, default=16)
    parser.add_argument("--max-steps", type=int, default=150)
    args = parser.parse_args()

    dataset = load_from_disk(args.dataset).rename_column("label", "labels")
    if args.format != "none":
        dataset = dataset.with_format(args.format)
    model = ResNet1d(leads=3, classes=5)
    meter = Meter(15, args.per_device_train_batch_size)
    with tempfile.TemporaryDirectory() as output_dir:
        training_args = TrainingArguments(
            output_dir=output_dir,
            per_device_train_batch_size=args.per_device_train_batch_size,
            max_steps=args.max_steps,
            learning_rate=1e-3,
            lr_scheduler_type="cosine",
            logging_steps=args.logging_steps,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            dataloader_num_workers=args.dataloader_num_workers,
            dataloader_prefetch_factor=args.dataloader_prefetch_factor if args.dataloader_num_workers else None,
            dataloader_persistent_workers=args.dataloader_num_workers > 0,
            seed=11,
        )
        trainer = Trainer(
            model=model, args=training_args, train_dataset=dataset, data_collator=default_data_collator, callbacks=[Timer(meter)]
        )
        trainer.train()
    meter.print()


if __name__ == "__main__":
    main()
