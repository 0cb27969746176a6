# SPDX-License-Identifier: Apache-2.0
"""Keyword spotting with a small convolutional network, watched in TensorBoard: losses, and histograms of what is learned."""

import argparse
import tempfile

import torch
import torch.nn.functional as F
from meter import Meter
from tensorboardX import SummaryWriter
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class KeywordNet(nn.Module):
    def __init__(self, bands, width, words):
        super().__init__()
        self.conv1, self.bn1 = (
            nn.Conv1d(bands, width, 9, stride=2, padding=4),
            nn.BatchNorm1d(width),
        )
        self.conv2, self.bn2 = (
            nn.Conv1d(width, width, 9, padding=4),
            nn.BatchNorm1d(width),
        )
        self.conv3, self.bn3 = (
            nn.Conv1d(width, width, 9, stride=2, padding=4),
            nn.BatchNorm1d(width),
        )
        self.head = nn.Linear(width, words)

    def forward(self, x):
        for conv, norm in (
            (self.conv1, self.bn1),
            (self.conv2, self.bn2),
            (self.conv3, self.bn3),
        ):
            x = F.relu(norm(conv(x)))
        return self.head(x.mean(2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--steps", type=int, default=260)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--histograms-every", type=int, default=1)
    parser.add_argument(
        "--weights-only", action="store_true", help="no histograms of gradients"
    )
    parser.add_argument("--scalars-every", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)

    features, words = torch.randn(2000, 40, 64), torch.randint(0, 35, (2000,))
    sampler = torch.utils.data.RandomSampler(
        range(2000), replacement=True, num_samples=args.steps * args.batch_size
    )
    loader = DataLoader(
        TensorDataset(features, words),
        args.batch_size,
        sampler=sampler,
        num_workers=args.num_workers,
    )
    model = KeywordNet(40, args.width, 35)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    meter = Meter(20, args.batch_size)
    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        for step, (batch, wanted) in enumerate(loader):
            logits = model(batch)
            loss = F.cross_entropy(logits, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.scalars_every == 0:
                writer.add_scalar("train/loss", loss.item(), step)
                writer.add_scalar(
                    "train/accuracy",
                    (logits.argmax(1) == wanted).float().mean().item(),
                    step,
                )
            if step % args.histograms_every == 0:
                for name, parameter in model.named_parameters():
                    writer.add_histogram(
                        f"weights/{name}", parameter.detach().numpy(), step
                    )
                    if not args.weights_only:
                        writer.add_histogram(
                            f"gradients/{name}", parameter.grad.numpy(), step
                        )
            if step % 50 == 0:
                print(f"step {step} loss {loss.item():.3f}")
            meter.step()
        meter.print()
        writer.close()


if __name__ == "__main__":
    main()
