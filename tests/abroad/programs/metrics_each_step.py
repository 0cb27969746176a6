# SPDX-License-Identifier: Apache-2.0
"""Multi-label tagging with scikit-learn's metrics of all predictions so far, for the progress line, in each step."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--metrics-every", type=int, default=1)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--window", type=int, default=4000)
args = parser.parse_args()
torch.manual_seed(0)
x = torch.rand(args.steps * args.batch_size, 300)
y = (torch.rand(len(x), 12) < x[:, :12]).float()
loader = DataLoader(TensorDataset(x, y), args.batch_size, num_workers=args.workers)
model = nn.Sequential(nn.Linear(300, 256), nn.ReLU(), nn.Linear(256, 12))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
meter = Meter(20, args.batch_size)
scores, labels = np.zeros((0, 12), np.float32), np.zeros((0, 12), np.float32)
for step, (features, wanted) in enumerate(loader):
    logits = model(features)
    loss = F.binary_cross_entropy_with_logits(logits, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scores = np.concatenate([scores, logits.detach().sigmoid().numpy()])[-args.window :]
    labels = np.concatenate([labels, wanted.numpy()])[-args.window :]
    if step % args.metrics_every == 0:
        auc, precision = roc_auc_score(labels, scores, average="macro"), average_precision_score(labels, scores)
        if step % 25 == 0:
            print(f"{step}: loss {loss.item():.3f} auc {auc:.3f} ap {precision:.3f}")
    meter.step()
meter.print()
