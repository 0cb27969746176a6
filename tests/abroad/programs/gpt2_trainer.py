# SPDX-License-Identifier: Apache-2.0
"""transformers.Trainer: a small GPT-2 from scratch on token blocks, checkpoints every few steps because the queue preempts."""

import argparse
import tempfile

import numpy as np
import torch
from meter import Meter
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Blocks(Dataset):
    def __init__(self, path, length):
        self.tokens, self.length = np.memmap(path, np.uint16, "r"), length

    def __len__(self):
        return len(self.tokens) // self.length

    def __getitem__(self, index):
        block = torch.from_numpy(self.tokens[index * self.length :][: self.length].astype(np.int64))
        return {"input_ids": block, "labels": block}


class Clock(TrainerCallback):
    def __init__(self, meter):
        self.meter = meter

    def on_step_end(self, args, state, control, **kwargs):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--save-steps", type=int, default=5)
    parser.add_argument("--logging-steps", type=int, default=10)
    parser.add_argument("--dataloader-num-workers", type=int, default=0)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--max-steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=256, n_embd=384, n_layer=6, n_head=6))
    meter = Meter(10, 4)
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=4, max_steps=args.max_steps, logging_steps=args.logging_steps, save_steps=args.save_steps,
            save_total_limit=2, report_to=[], disable_tqdm=True, use_cpu=True, dataloader_num_workers=args.dataloader_num_workers,
        )  # fmt: skip
        Trainer(model, options, train_dataset=Blocks(args.tokens, args.block), callbacks=[Clock(meter)]).train()
    meter.print()


if __name__ == "__main__":
    main()
