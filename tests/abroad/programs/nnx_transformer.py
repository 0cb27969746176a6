# SPDX-License-Identifier: Apache-2.0
"""flax.nnx: a small transformer on tokens in memory, everything jitted."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from meter import Meter

parser = argparse.ArgumentParser()
parser.add_argument("--tokens", required=True)
parser.add_argument("--dim", type=int, default=96)
parser.add_argument("--length", type=int, default=64)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--steps", type=int, default=120)
parser.add_argument("--log-every", type=int, default=25)
args = parser.parse_args()


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm1, self.norm2 = nnx.LayerNorm(args.dim, rngs=rngs), nnx.LayerNorm(args.dim, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=4, in_features=args.dim, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(args.dim, 4 * args.dim, rngs=rngs), nnx.Linear(4 * args.dim, args.dim, rngs=rngs)

    def __call__(self, x, mask):
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.down(jax.nn.gelu(self.up(self.norm2(x))))


class Model(nnx.Module):
    def __init__(self, rngs):
        self.embed, self.first, self.second = nnx.Embed(128, args.dim, rngs=rngs), Block(rngs), Block(rngs)
        self.head = nnx.Linear(args.dim, 128, rngs=rngs)

    def __call__(self, tokens):
        mask = nnx.make_causal_mask(tokens)
        return self.head(self.second(self.first(self.embed(tokens), mask), mask))


model = Model(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(3e-4), wrt=nnx.Param)


@nnx.jit
def train_step(model, optimizer, tokens):
    def loss_of(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(tokens[:, :-1]), tokens[:, 1:]).mean()

    loss, gradients = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradients)
    return loss


data = np.fromfile(f"{args.tokens}/train.bin", np.uint16).astype(np.int32)
random = np.random.default_rng(0)
meter = Meter(20, args.batch)
for step in range(args.steps):
    starts = random.integers(0, len(data) - args.length - 1, args.batch)
    loss = train_step(model, optimizer, jnp.asarray(np.stack([data[at : at + args.length + 1] for at in starts])))
    if step % args.log_every == 0:
        print(step, float(loss))
    meter.step()
loss.block_until_ready()
meter.print()
