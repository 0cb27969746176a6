# SPDX-License-Identifier: Apache-2.0
"""JAX with flax and optax: cells in microscope images, counted by a density map. All images are in memory; steps are jitted and donated."""

import argparse

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state
from meter import Meter

parser = argparse.ArgumentParser()
parser.add_argument("--images", type=int, default=256)
parser.add_argument("--size", type=int, default=64)
parser.add_argument("--features", type=int, default=16)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--steps", type=int, default=90)
parser.add_argument("--log-every", type=int, default=30)
parser.add_argument("--ahead", action="store_true", help="put the next batch on the device before this step")
parser.add_argument("--flip", action=argparse.BooleanOptionalAction, default=True, help="random flips")


class Encoder(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x):
        skips = []
        for stage in range(3):
            for _ in range(2):
                x = nn.relu(nn.GroupNorm(num_groups=8)(nn.Conv(self.features << stage, (3, 3), use_bias=False)(x)))
            skips.append(x)
            x = nn.max_pool(x, (2, 2), (2, 2))
        return skips


class DensityNet(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x):
        *skips, x = Encoder(self.features)(x)
        for skip in reversed(skips):
            x = jax.image.resize(x, (*skip.shape[:3], x.shape[3]), "nearest")
            x = nn.relu(nn.Conv(skip.shape[3], (3, 3))(jnp.concatenate([x, skip], -1)))
        return nn.Conv(1, (1, 1))(x)


def make_cells(count, size):
    rng = np.random.default_rng(3)
    density = np.zeros((count, size, size), np.float32)
    y, x = np.mgrid[-6:7, -6:7]
    spot = np.exp(-(x**2 + y**2) / 8)
    for image in density:
        for row, column in rng.integers(6, size - 7, (rng.integers(5, 40), 2)):
            image[row - 6 : row + 7, column - 6 : column + 7] += spot
    images = density.clip(0, 1) + rng.normal(0, 0.15, density.shape).astype(np.float32)
    return images[..., None], density[..., None]


def batches(images, density, args):
    rng = np.random.default_rng(4)
    for _ in range(args.steps):
        rows = rng.choice(len(images), args.batch_size, replace=False)
        x, y = images[rows], density[rows]
        if args.flip and rng.random() < 0.5:
            x, y = x[:, :, ::-1], y[:, :, ::-1]
        yield jax.device_put((x, y))


def ahead_of(items):
    items = iter(items)
    following = next(items)
    for item in items:
        following, now = item, following
        yield now
    yield following


def train_step(state, x, y):
    def loss_of(params):
        predicted = state.apply_fn({"params": params}, x)
        counts = jnp.abs(predicted.sum((1, 2, 3)) - y.sum((1, 2, 3))).mean()
        return jnp.square(predicted - y).mean() * 100, counts

    (loss, counts), grads = jax.value_and_grad(loss_of, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads), loss, counts


def main():
    args = parser.parse_args()
    images, density = make_cells(args.images, args.size)
    model = DensityNet(args.features)
    params = model.init(jax.random.key(0), jnp.zeros((1, args.size, args.size, 1)))["params"]
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    step_fn = jax.jit(train_step, donate_argnums=0)
    meter = Meter(10, args.batch_size)
    data = batches(images, density, args)
    for step, (x, y) in enumerate(ahead_of(data) if args.ahead else data, 1):
        state, loss, counts = step_fn(state, x, y)
        if step % args.log_every == 0:
            print(f"{step:4} loss {float(loss):.4f}  cells off by {float(counts):.2f}")
        meter.step()
    jax.block_until_ready(state)
    meter.print()


if __name__ == "__main__":
    main()
