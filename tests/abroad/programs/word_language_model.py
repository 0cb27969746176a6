# SPDX-License-Identifier: Apache-2.0
"""The word-level language model example: LSTM, truncated backpropagation, the corpus as one long tensor. On the CPU, as delivered."""

import argparse
import math

import numpy as np
import torch
from meter import Meter
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--emsize", type=int, default=128)
parser.add_argument("--nhid", type=int, default=160)
parser.add_argument("--batch_size", type=int, default=20)
parser.add_argument("--bptt", type=int, default=35)
parser.add_argument("--steps", type=int, default=110)
parser.add_argument("--log-interval", type=int, default=20)
parser.add_argument("--eval-interval", type=int, default=0)
parser.add_argument("--eval-batches", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(1111)


def batchify(split):
    tokens = torch.from_numpy(np.fromfile(f"{args.data}/{split}.bin", np.uint16).astype(np.int64))
    rows = len(tokens) // args.batch_size
    return tokens[: rows * args.batch_size].view(args.batch_size, rows).t().contiguous()


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.rnn, self.decoder = nn.Embedding(128, args.emsize), nn.LSTM(args.emsize, args.nhid, 2, dropout=0.2), nn.Linear(args.nhid, 128)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.encoder(tokens), hidden)
        return self.decoder(output).view(-1, 128), hidden


train_data, val_data = batchify("train"), batchify("val")
model, criterion = RNNModel(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=5)
zero = torch.zeros(2, args.batch_size, args.nhid)
hidden = (zero, zero)
meter = Meter(20, args.batch_size)
for step in range(args.steps):
    at = step * args.bptt
    data, targets = train_data[at : at + args.bptt], train_data[at + 1 : at + 1 + args.bptt].reshape(-1)
    hidden = tuple(part.detach() for part in hidden)
    optimizer.zero_grad()
    output, hidden = model(data, hidden)
    loss = criterion(output, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    if step % args.log_interval == 0:
        print(f"| {step:5d} batches | loss {loss.item():5.2f} | ppl {math.exp(min(20, loss.item())):8.2f}")
    if args.eval_interval and step % args.eval_interval == args.eval_interval - 1:
        model.eval()
        with torch.no_grad():
            state, total = (zero, zero), 0.0
            for batch in range(args.eval_batches):
                at = batch * args.bptt
                output, state = model(val_data[at : at + args.bptt], state)
                total += criterion(output, val_data[at + 1 : at + 1 + args.bptt].reshape(-1)).item()
        print(f"| valid loss {total / args.eval_batches:5.2f}")
        model.train()
    meter.step()
meter.print()
