# SPDX-License-Identifier: Apache-2.0
"""Ignite: a trainer engine with handlers; one of them saves the model, one of them validates."""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from ignite.engine import Engine, Events
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--save-every", type=int, default=1000)
parser.add_argument("--validate-every", type=int, default=20)
parser.add_argument("--validation-rows", type=int, default=8000)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--steps", type=int, default=240)
args = parser.parse_args()
torch.manual_seed(0)

x = torch.rand(args.steps * 64, 256)
loader = DataLoader(TensorDataset(x, (x.sum(1) > 128).long()), 64, num_workers=args.workers)
held_out = DataLoader(TensorDataset(x[: args.validation_rows], torch.zeros(args.validation_rows, dtype=torch.long)), 64)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
meter = Meter(20, 64)


def update(engine, batch):
    model.train()
    loss = F.cross_entropy(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def predict(engine, batch):
    model.eval()
    with torch.no_grad():
        return model(batch[0]).argmax(1)


trainer, evaluator = Engine(update), Engine(predict)
folder = Path(tempfile.mkdtemp())


@trainer.on(Events.ITERATION_COMPLETED(every=args.save_every))
def save(engine):
    torch.save(model.state_dict(), folder / "model.pt")


@trainer.on(Events.ITERATION_COMPLETED(every=args.validate_every))
def validate(engine):
    evaluator.run(held_out)
    print(f"iteration {engine.state.iteration} loss {engine.state.output.item():.4f}")


@trainer.on(Events.ITERATION_COMPLETED)
def tick(engine):
    meter.step()


trainer.run(loader, max_epochs=1)
meter.print()
