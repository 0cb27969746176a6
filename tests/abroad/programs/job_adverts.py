# SPDX-License-Identifier: Apache-2.0
"""Assigns job advertisements to occupation codes with a Transformer encoder that is trained from scratch."""

import argparse
import math

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

PAD, CLS, FIRST_WORD = 0, 1, 2


class Adverts(Dataset):
    """Adverts as they leave the tokenizer: a vocabulary of its own for each of the occupations, and common words."""

    def __init__(self, count, vocabulary, occupations, max_length, seed=8):
        rng = np.random.default_rng(seed)
        lengths = np.clip(rng.gamma(4, max_length / 16, count), 6, max_length).astype(int)
        self.codes = rng.integers(0, occupations, count)
        self.texts = []
        for length, code in zip(lengths, self.codes):
            common = rng.zipf(1.3, length) % (vocabulary // 2)
            own = vocabulary // 2 + (code * 37 + rng.integers(0, 200, length)) % (vocabulary // 2 - FIRST_WORD)
            words = FIRST_WORD + np.where(rng.random(length) < 0.15, own, common)
            words[0] = CLS
            self.texts.append(torch.from_numpy(words))

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return self.texts[index], int(self.codes[index])


class Batcher:
    def __init__(self, max_length, pad):
        self.max_length, self.pad = max_length, pad

    def __call__(self, samples):
        lengths = torch.tensor([len(text) for text, _ in samples])
        width = self.max_length if self.pad == "max_length" else int(lengths.max())
        ids = torch.full((len(samples), width), PAD)
        for row, (text, _) in zip(ids, samples):
            row[: len(text)] = text
        return ids, lengths, torch.tensor([code for _, code in samples])


class LengthBuckets(Sampler):
    """Batches of adverts of about the same length: sorts the adverts of 32 batches at a time."""

    def __init__(self, lengths, batch_size, pool=32):
        self.lengths, self.batch_size, self.pool = (lengths, batch_size, pool * batch_size)

    def __len__(self):
        return len(self.lengths) // self.batch_size

    def __iter__(self):
        order = torch.randperm(len(self.lengths)).tolist()
        for start in range(0, len(order), self.pool):
            part = sorted(order[start : start + self.pool], key=self.lengths.__getitem__)
            batches = [part[at : at + self.batch_size] for at in range(0, len(part) - self.batch_size + 1, self.batch_size)]
            yield from (batches[number] for number in torch.randperm(len(batches)).tolist())


class Coder(nn.Module):
    def __init__(self, vocabulary, occupations, max_length, dim, depth, heads):
        super().__init__()
        self.words = nn.Embedding(vocabulary, dim, padding_idx=PAD)
        self.places = nn.Embedding(max_length, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, occupations)
        self.scale = math.sqrt(dim)

    def forward(self, ids, lengths):
        place = torch.arange(ids.shape[1], device=ids.device)
        x = self.words(ids) * self.scale + self.places(place)
        x = self.encoder(x, src_key_padding_mask=place >= lengths[:, None])
        return self.head(x[:, 0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--pad", choices=["max_length", "longest"], default="max_length")
    parser.add_argument("--bucket", action="store_true", help="adverts of similar length into one batch")
    parser.add_argument("--vocabulary", type=int, default=16000)
    parser.add_argument("--occupations", type=int, default=436)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--fp32", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--log-every", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(8)
    device = torch.device("cuda")
    torch.set_float32_matmul_precision("high")

    adverts = Adverts(args.steps * args.batch_size, args.vocabulary, args.occupations, args.max_length)
    options = {"collate_fn": Batcher(args.max_length, args.pad), "num_workers": args.workers, "pin_memory": True}
    if args.bucket:
        loader = DataLoader(adverts, batch_sampler=LengthBuckets([len(text) for text in adverts.texts], args.batch_size), **options)
    else:
        loader = DataLoader(adverts, args.batch_size, shuffle=True, drop_last=True, **options)
    with device:
        model = Coder(args.vocabulary, args.occupations, args.max_length, args.dim, args.depth, args.heads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01, fused=args.fused or None)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.steps + 1)
    meter = Meter(15, args.batch_size, torch.cuda.synchronize)
    for step, batch in enumerate(loader):
        ids, lengths, codes = (part.to(device, non_blocking=True) for part in batch)
        with torch.autocast("cuda", torch.bfloat16, enabled=not args.fp32):
            loss = nn.functional.cross_entropy(model(ids, lengths), codes)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % args.log_every == 0:
            print(f"{step}/{args.steps} loss {loss.item():.3f}", flush=True)
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
