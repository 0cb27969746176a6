# SPDX-License-Identifier: Apache-2.0
"""Anomalies in the logs of a cluster: a small causal transformer learns which template follows which. Accelerate, and an
IterableDataset over a memory-mapped file of template numbers."""

import argparse
import math
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from meter import Meter
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

TEMPLATES = 600


def write_log(path, lines=2_000_000):
    """Jobs of a scheduler: usual successions of templates, with others in between."""
    rng = np.random.default_rng(17)
    usual = rng.integers(0, TEMPLATES, (200, 16))
    log = usual[rng.integers(0, 200, lines // 16)].reshape(-1)
    odd = rng.random(lines) < 0.05
    log[odd] = rng.integers(0, TEMPLATES, odd.sum())
    log.astype(np.uint16).tofile(path)


class LogStream(IterableDataset):
    def __init__(self, path, window, limit):
        self.path, self.window, self.limit = path, window, limit

    def __iter__(self):
        log = np.memmap(self.path, np.uint16, "r")
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for number in range(first, self.limit, step):
            at = number * 6007 % (len(log) - self.window - 1)
            yield torch.from_numpy(log[at : at + self.window + 1].astype(np.int64))


class LogModel(nn.Module):
    def __init__(self, window, dim, heads, depth):
        super().__init__()
        self.templates, self.places = nn.Embedding(TEMPLATES, dim), nn.Parameter(torch.zeros(window, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(dim), enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(window), persistent=False)
        nn.init.normal_(self.templates.weight, std=0.02)

    def forward(self, x):
        x = self.encoder(self.templates(x) + self.places, mask=self.mask, is_causal=True)
        return x @ self.templates.weight.T


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--train_batch_size", type=int, default=16)
    parser.add_argument("--max_train_steps", type=int, default=70)
    parser.add_argument("--num_workers", type=int, default=1)
    parser.add_argument("--prefetch_factor", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=6e-4)
    parser.add_argument("--logging_steps", type=int, default=25)
    parser.add_argument("--checkpointing_steps", type=int, default=0)
    return parser.parse_args()


def main():
    args = parse_args()
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(17)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "templates.u16"
        write_log(path)
        stream = LogStream(path, args.window, args.train_batch_size * args.max_train_steps)
        loader = DataLoader(
            stream, args.train_batch_size, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor if args.num_workers else None
        )
        model = LogModel(args.window, args.dim, args.heads, args.depth)
        optimizer = torch.optim.AdamW(model.parameters(), args.learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 20))
        model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
        meter = Meter(8, args.train_batch_size)
        for step, window in enumerate(loader, 1):
            logits = model(window[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, TEMPLATES), window[:, 1:].reshape(-1))
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if step % args.logging_steps == 0:
                accelerator.print(f"{step}: perplexity {math.exp(loss.item()):.1f} lr {schedule.get_last_lr()[0]:.2g}")
            if args.checkpointing_steps and step % args.checkpointing_steps == 0:
                accelerator.save_state(f"{folder}/step_{step}")
            meter.step()
        meter.print()


if __name__ == "__main__":
    main()
