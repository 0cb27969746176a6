# SPDX-License-Identifier: Apache-2.0
"""Readmission within 30 days, from the codes of diagnoses, procedures and drugs in a patient's history (in the manner of BEHRT)."""

from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from dataclasses import dataclass, fields

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    patients: int = 6000
    vocabulary: int = 4000
    max_codes: int = 256
    batching: str = "shuffled"
    batch_size: int = 12
    num_workers: int = 1
    prefetch_factor: int = 2
    dim: int = 48
    heads: int = 2
    layers: int = 2
    lr: float = 3e-4
    steps: int = 200
    report_every: int = 25

    @classmethod
    def from_command_line(cls):
        parser = ArgumentParser(formatter_class=ArgumentDefaultsHelpFormatter)
        for field in fields(cls):
            parser.add_argument("--" + field.name.replace("_", "-"), type=field.type, default=field.default)
        return cls(**vars(parser.parse_args()))


class Histories(Dataset):
    def __init__(self, config):
        rng = np.random.default_rng(30)
        lengths = np.clip(rng.lognormal(3.4, 0.9, config.patients), 5, 256).astype(int)
        bounds = np.concatenate([[0], lengths.cumsum()])
        self.codes = torch.from_numpy(rng.zipf(1.3, bounds[-1]) % (config.vocabulary - 1) + 1)
        self.days = torch.from_numpy(rng.integers(0, 60, bounds[-1]).cumsum() % 4000)
        self.spans = [slice(max(begin, end - config.max_codes), end) for begin, end in zip(bounds, bounds[1:])]
        self.back = torch.from_numpy(rng.random(config.patients) < 0.15).float()

    def __len__(self):
        return len(self.spans)

    def __getitem__(self, patient):
        span = self.spans[patient]
        return self.codes[span], self.days[span], self.back[patient]


def collate(patients):
    codes, days, back = zip(*patients)
    return pad_sequence(codes, batch_first=True), pad_sequence(days, batch_first=True), torch.stack(back)


class Batches:
    """Lists of patients. "pooled" sorts within every 60 batches, and mixes the batches afterwards."""

    def __init__(self, lengths, config):
        self.lengths, self.config = lengths, config

    def __iter__(self):
        size, number = self.config.batch_size, 0
        while True:
            order = torch.randperm(len(self.lengths)).tolist()
            for at in range(0, len(order), 60 * size):
                pool = order[at : at + 60 * size]
                if self.config.batching == "pooled":
                    pool.sort(key=self.lengths.__getitem__)
                batches = [pool[first : first + size] for first in range(0, len(pool) - size + 1, size)]
                for turn in torch.randperm(len(batches)).tolist():
                    if number == self.config.steps:
                        return
                    yield batches[turn]
                    number += 1


class Behrt(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.code, self.place = nn.Embedding(config.vocabulary, config.dim, padding_idx=0), nn.Embedding(config.max_codes, config.dim)
        self.register_buffer("rates", torch.exp(-torch.arange(0, config.dim, 2) * 0.14))
        layer = nn.TransformerEncoderLayer(config.dim, config.heads, 4 * config.dim, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)
        self.head = nn.Linear(config.dim, 1)

    def forward(self, codes, days):
        angle = days[..., None] * self.rates
        x = self.code(codes) + self.place.weight[: codes.shape[1]] + torch.cat([angle.sin(), angle.cos()], 2)
        empty = codes == 0
        x = self.encoder(x, src_key_padding_mask=empty)
        return self.head(x.masked_fill(empty[..., None], -1e4).amax(1)).squeeze(1)


def train(config):
    torch.manual_seed(30)
    histories = Histories(config)
    batches = Batches([span.stop - span.start for span in histories.spans], config)
    loader = DataLoader(
        histories,
        batch_sampler=batches,
        collate_fn=collate,
        num_workers=config.num_workers,
        prefetch_factor=config.prefetch_factor if config.num_workers else None,
    )
    model = Behrt(config)
    optimizer = torch.optim.AdamW(model.parameters(), config.lr)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(5.0))
    meter = Meter(20, config.batch_size)
    for step, (codes, days, back) in enumerate(loader, 1):
        loss = criterion(model(codes, days), back)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % config.report_every == 0:
            print(f"[{step}/{config.steps}] loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    train(Config.from_command_line())
