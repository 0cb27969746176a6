# SPDX-License-Identifier: Apache-2.0
"""Variational autoencoder of flat images. There was a NaN last week."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="VAE")
parser.add_argument("--batch-size", type=int, default=512)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--hidden", type=int, default=2048)
parser.add_argument("--no-detect-anomaly", dest="detect_anomaly", action="store_false")
parser.add_argument("--amp", action="store_true")
parser.add_argument("--log-interval", type=int, default=20)
parser.add_argument("--workers", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(1)
torch.autograd.set_detect_anomaly(args.detect_anomaly)

images = TensorDataset(torch.rand(64 * 512, 784))
loader = DataLoader(images, batch_sampler=torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(images), args.batch_size, True), num_workers=args.workers, pin_memory=True)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(784, args.hidden), nn.ReLU(), nn.Linear(args.hidden, args.hidden), nn.ReLU())
        self.mean, self.logvar = nn.Linear(args.hidden, 20), nn.Linear(args.hidden, 20)
        self.decode = nn.Sequential(nn.Linear(20, args.hidden), nn.ReLU(), nn.Linear(args.hidden, args.hidden), nn.ReLU(), nn.Linear(args.hidden, 784))

    def forward(self, x):
        h = self.encode(x)
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        return self.decode(z), mean, logvar


model = VAE().to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
meter = Meter(20, args.batch_size, torch.cuda.synchronize)
for epoch in range(1, args.epochs + 1):
    model.train()
    train_loss = torch.zeros((), device="cuda")
    for batch_idx, (data,) in enumerate(loader):
        data = data.to("cuda", non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.amp):
            logits, mean, logvar = model(data)
        reconstruction = F.binary_cross_entropy_with_logits(logits.float(), data, reduction="sum")
        loss = reconstruction - 0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
        loss.backward()
        train_loss += loss.detach()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print(f"Train Epoch: {epoch} [{batch_idx}/{len(loader)}]\tLoss: {loss.item() / len(data):.6f}")
        meter.step()
    print(f"====> Epoch: {epoch} Average loss: {train_loss.item() / len(images):.4f}")
meter.print()
