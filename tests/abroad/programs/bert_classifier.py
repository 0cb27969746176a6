# SPDX-License-Identifier: Apache-2.0
"""Sentence classification with a small BERT-like encoder. Sentences are tokenised beforehand and padded when batched."""

import argparse
import random

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--max-length", type=int, default=512)
parser.add_argument("--padding", choices=["max_length", "longest"], default="max_length")
parser.add_argument("--group-by-length", action="store_true")
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--hidden", type=int, default=512)
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="bf16")
parser.add_argument("--logging-steps", type=int, default=25)
parser.add_argument("--num-workers", type=int, default=1)
args = parser.parse_args()
random.seed(0)
torch.manual_seed(0)
if args.precision == "tf32":
    torch.set_float32_matmul_precision("high")

lengths = [min(args.max_length, 8 + int(random.expovariate(1 / 48))) for _ in range(args.steps * args.batch_size)]
sentences = [[random.randrange(1, 8000) for _ in range(length)] for length in lengths]
examples = [(words, index % 2) for index, words in enumerate(sentences)]


def collate(batch):
    longest = args.max_length if args.padding == "max_length" else max(len(words) for words, _ in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.long)
    for row, (words, _) in enumerate(batch):
        tokens[row, : len(words)] = torch.tensor(words)
    return tokens, torch.tensor([label for _, label in batch])


def batches():
    order = list(range(len(examples)))
    random.shuffle(order)
    if args.group_by_length:
        order = [i for at in range(0, len(order), 50 * args.batch_size) for i in sorted(order[at : at + 50 * args.batch_size], key=lambda i: -lengths[i])]
    return [order[at : at + args.batch_size] for at in range(0, len(order), args.batch_size)]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(8000, args.hidden), nn.Embedding(args.max_length, args.hidden)
        layer = nn.TransformerEncoderLayer(args.hidden, 8, 4 * args.hidden, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, args.layers, enable_nested_tensor=False)
        self.head = nn.Linear(args.hidden, 2)

    def forward(self, tokens):
        hidden = self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.layers(hidden)[:, 0])


model = Encoder().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
loader = DataLoader(examples, batch_sampler=batches(), collate_fn=collate, num_workers=args.num_workers, pin_memory=True)
meter = Meter(20, args.batch_size, torch.cuda.synchronize)
for step, (tokens, labels) in enumerate(loader):
    tokens, labels = tokens.cuda(non_blocking=True), labels.cuda(non_blocking=True)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
        loss = F.cross_entropy(model(tokens).float(), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % args.logging_steps == 0:
        print({"loss": loss.item(), "step": step})
    meter.step()
meter.print()
