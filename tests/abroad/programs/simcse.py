# SPDX-License-Identifier: Apache-2.0
"""Sentence embeddings without labels: each sentence goes through the encoder twice, and dropout makes the difference."""

import argparse
import random

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--per-device-train-batch-size", type=int, default=192)
parser.add_argument("--max-seq-length", type=int, default=128)
parser.add_argument("--vocabulary", type=int, default=8000)
parser.add_argument("--hidden-size", type=int, default=512)
parser.add_argument("--num-layers", type=int, default=6)
parser.add_argument("--temp", type=float, default=0.05)
parser.add_argument("--max-steps", type=int, default=90)
parser.add_argument("--dataloader-num-workers", type=int, default=1)
parser.add_argument("--prefetch-factor", type=int, default=2)
parser.add_argument("--logging-steps", type=int, default=50)
args = parser.parse_args()
random.seed(42)
torch.manual_seed(42)

size = args.per_device_train_batch_size
lengths = [
    min(args.max_seq_length, max(6, int(random.lognormvariate(3.7, 0.5))))
    for _ in range(args.max_steps * size)
]
sentences = [torch.randint(1, args.vocabulary, (length,)) for length in lengths]


def buckets():
    """Sentences of one length go together, so that there is next to nothing to pad."""
    order = sorted(range(len(sentences)), key=lengths.__getitem__)
    batches = [order[at : at + size] for at in range(0, len(order), size)]
    random.shuffle(batches)
    return batches


def collate(batch):
    return nn.utils.rnn.pad_sequence(batch, batch_first=True)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(args.vocabulary, args.hidden_size)
        self.positions = nn.Embedding(args.max_seq_length, args.hidden_size)
        layer = nn.TransformerEncoderLayer(
            args.hidden_size,
            8,
            4 * args.hidden_size,
            batch_first=True,
            activation="gelu",
        )
        self.layers = nn.TransformerEncoder(
            layer, args.num_layers, enable_nested_tensor=False
        )
        self.pooler = nn.Sequential(
            nn.Linear(args.hidden_size, args.hidden_size), nn.Tanh()
        )

    def forward(self, tokens):
        hidden = self.words(tokens) + self.positions(
            torch.arange(tokens.shape[1], device=tokens.device)
        )
        return self.pooler(self.layers(hidden, src_key_padding_mask=tokens == 0)[:, 0])


model = Encoder().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=True)
scaler = torch.amp.GradScaler("cuda")
loader = DataLoader(
    sentences, batch_sampler=buckets(), collate_fn=collate, pin_memory=True,
    num_workers=args.dataloader_num_workers, prefetch_factor=args.prefetch_factor,
)  # fmt: skip
labels = torch.arange(size, device="cuda")
meter = Meter(20, size, torch.cuda.synchronize)
for step, tokens in enumerate(loader):
    tokens = tokens.cuda(non_blocking=True)
    with torch.autocast("cuda", dtype=torch.float16):
        first, second = F.normalize(model(tokens.repeat(2, 1)).float(), dim=1).chunk(2)
    similar = first @ second.t() / args.temp
    loss = F.cross_entropy(similar, labels)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    if step % args.logging_steps == 0:
        print({"loss": round(loss.item(), 4), "step": step})
    meter.step()
meter.print()
