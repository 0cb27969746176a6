# SPDX-License-Identifier: Apache-2.0
"""Trains without a loader and evaluates in the loop, as nanoGPT does. The last line counts what it did."""

import json
import sys

import torch

torch.manual_seed(0)
torch.set_num_threads(1)


class Dropping(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 2))

    def forward(self, x):
        return self.layers(x)


model = Dropping()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
evaluations = 0


def get_batch():
    return torch.randn(8, 16), torch.randint(0, 2, (8,))


@torch.no_grad()
def estimate_loss():
    global evaluations
    evaluations += 1
    assert model.eval() is model
    assert not model.layers[1].training
    losses = [torch.nn.functional.cross_entropy(model(x), y).item() for x, y in (get_batch() for _ in range(4))]
    model.train()
    return sum(losses) / len(losses)


for step in range(30):
    if step % 10 == 5:
        print(f"{estimate_loss():.6f}")
    x, y = get_batch()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
print(json.dumps({"evaluations": evaluations, "python": sys.version.split()[0]}))
