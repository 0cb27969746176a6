# SPDX-License-Identifier: Apache-2.0
"""JAX with optax: a jitted step, batches from a plain Python generator over .npy files."""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from meter import Meter

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--packed", action="store_true")
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--hidden", type=int, default=512)
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--log-every", type=int, default=20)
args = parser.parse_args()


def batches():
    packed = np.load(args.data / "packed.npy") if args.packed else None
    for step in range(args.steps):
        chosen = [(step * args.batch + offset) * 17 % 4000 for offset in range(args.batch)]
        x = packed[chosen] if args.packed else np.stack([np.load(args.data / "files" / f"{one:05}.npy") for one in chosen])
        yield x, np.array(chosen) % 10


def forward(parameters, x):
    for weight in parameters[:-1]:
        x = jax.nn.relu(x @ weight)
    return x @ parameters[-1]


def loss_of(parameters, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(forward(parameters, x), y).mean()


keys = jax.random.split(jax.random.key(0), 3)
shapes = [(512, args.hidden), (args.hidden, args.hidden), (args.hidden, 10)]
parameters = [jax.random.normal(key, shape) * 0.05 for key, shape in zip(keys, shapes)]
optimizer = optax.adam(1e-3)
state = optimizer.init(parameters)


@jax.jit
def update(parameters, state, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
    changes, state = optimizer.update(gradients, state)
    return optax.apply_updates(parameters, changes), state, loss


meter = Meter(20, args.batch)
for step, (x, y) in enumerate(batches()):
    parameters, state, loss = update(parameters, state, jnp.asarray(x), jnp.asarray(y))
    if step % args.log_every == 0:
        print(step, float(loss))
    meter.step()
meter.print()
