# SPDX-License-Identifier: Apache-2.0
"""skorch: a scikit-learn style classifier whose rows come from a feature service."""

import argparse
import time

import torch
from meter import Meter
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import nn
from torch.utils.data import Dataset


class FeatureService(Dataset):
    def __init__(self, rows, ms):
        self.x, self.y, self.seconds = torch.rand(rows, 64, generator=torch.Generator().manual_seed(0)), torch.arange(rows) % 2, ms / 1e3

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.x[index], self.y[index]


class Clock(Callback):
    def __init__(self, meter):
        self.meter = meter

    def on_batch_end(self, net, training=False, **kwargs):
        if training:
            self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--service-ms", type=float, default=1)
    parser.add_argument("--rows", type=int, default=1280)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    meter = Meter(args.rows // args.batch_size, args.batch_size)
    net = NeuralNetClassifier(
        nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 2)), criterion=nn.CrossEntropyLoss, max_epochs=args.epochs, lr=0.1, batch_size=args.batch_size,
        train_split=None, iterator_train__num_workers=args.num_workers, iterator_train__shuffle=True, callbacks=[Clock(meter)], classes=[0, 1],
    )  # fmt: skip
    net.fit(FeatureService(args.rows, args.service_ms), y=None)
    meter.print()


if __name__ == "__main__":
    main()
