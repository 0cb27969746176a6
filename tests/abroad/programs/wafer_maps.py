# SPDX-License-Identifier: Apache-2.0
"""JAX with flax and optax: patterns of failed dies on wafer maps (rings, scratches, edges). The gradient is jitted; the trainer
class came from the group's Haiku code and keeps a moving average of the weights for the fab."""

import argparse
import time
from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from meter import Meter

PATTERNS = ("none", "center", "ring", "edge", "scratch", "half")


def make_wafers(count, size):
    """0: no die, 1: good, 2: failed."""
    rng = np.random.default_rng(31)
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    radius, labels = np.hypot(x, y), rng.integers(0, len(PATTERNS), count)
    maps = np.zeros((count, size, size), np.uint8)
    for wafer, label in zip(maps, labels):
        angle = rng.uniform(0, np.pi)
        along = x * np.cos(angle) + y * np.sin(angle)
        where = {
            "none": np.zeros_like(radius, bool), "center": radius < 0.35, "ring": abs(radius - 0.55) < 0.1, "edge": radius > 0.85,
            "scratch": abs(along - rng.uniform(-0.3, 0.3)) < 0.04, "half": along > 0.1,
        }[PATTERNS[label]]  # fmt: skip
        wafer[:] = (radius < 1) * (1 + (rng.random(radius.shape) < 0.05 + 0.6 * where))
    return maps, labels


class Block(nn.Module):
    features: int
    stride: int

    @nn.compact
    def __call__(self, x):
        y = nn.relu(nn.GroupNorm(num_groups=4)(nn.Conv(self.features, (3, 3), self.stride, use_bias=False)(x)))
        y = nn.GroupNorm(num_groups=4)(nn.Conv(self.features, (3, 3), use_bias=False)(y))
        if x.shape != y.shape:
            x = nn.Conv(self.features, (1, 1), self.stride, use_bias=False)(x)
        return nn.relu(x + y)


class WaferNet(nn.Module):
    width: int
    blocks: int

    @nn.compact
    def __call__(self, maps):
        x = nn.relu(nn.Conv(self.width, (3, 3), 2)(jax.nn.one_hot(maps, 3)))
        for stage in range(3):
            for block in range(self.blocks):
                x = Block(self.width << stage, 2 if stage and not block else 1)(x)
        return nn.Dense(len(PATTERNS))(x.mean((1, 2)))


@dataclass
class TrainState:
    params: dict
    average: dict
    opt_state: tuple
    step: int = 0


class Trainer:
    def __init__(self, args, model, maps):
        self.model, self.args = model, args
        schedule = optax.warmup_cosine_decay_schedule(0.0, args.lr, 30, args.steps)
        self.tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-3))
        params = jax.jit(model.init)(jax.random.key(31), maps[:1])["params"]
        self.state = TrainState(params, params, self.tx.init(params))
        self.loss_and_grads = jax.jit(jax.value_and_grad(self.loss_of))
        if args.jit_update:
            self.update = jax.jit(self.update)
        if args.jit_update or args.jit_average:
            self.averaged = jax.jit(self.averaged)

    def loss_of(self, params, maps, labels):
        logits = self.model.apply({"params": params}, maps)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def update(self, params, opt_state, grads):
        updates, opt_state = self.tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    def averaged(self, average, params):
        return jax.tree.map(lambda old, new: old + (1 - self.args.decay) * (new - old), average, params)

    def train_step(self, maps, labels):
        state = self.state
        loss, grads = self.loss_and_grads(state.params, maps, labels)
        state.params, state.opt_state = self.update(state.params, state.opt_state, grads)
        if state.step % self.args.average_every == 0:
            state.average = self.averaged(state.average, state.params)
        state.step += 1
        return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wafers", type=int, default=2048)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--blocks", type=int, default=2, help="in each of the three stages")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--decay", type=float, default=0.995)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--average-every", type=int, default=1)
    parser.add_argument("--jit-average", action="store_true")
    parser.add_argument("--jit-update", action="store_true")
    parser.add_argument("--on-device", action="store_true", help="all wafers are put on the device once")
    parser.add_argument("--log-every", type=int, default=25)
    args = parser.parse_args()

    maps, labels = make_wafers(args.wafers, args.size)
    if args.on_device:
        maps, labels = jax.device_put((maps, labels))
    trainer = Trainer(args, WaferNet(args.width, args.blocks), maps)
    rng, meter, began = np.random.default_rng(32), Meter(15, args.batch_size), time.time()
    for step in range(args.steps):
        rows = rng.integers(0, args.wafers, args.batch_size)
        loss = trainer.train_step(maps[rows], labels[rows])
        if step % args.log_every == 0:
            print(f"{time.time() - began:6.1f} s  step {step:4}  loss {float(loss):.4f}")
        meter.step()
    jax.block_until_ready((trainer.state.params, trainer.state.average))
    meter.print()
    logits = jax.jit(trainer.model.apply)({"params": trainer.state.average}, jnp.asarray(maps[:256]))
    print(f"accuracy of the average {np.mean(np.argmax(logits, 1) == labels[:256]):.3f}")


if __name__ == "__main__":
    main()
