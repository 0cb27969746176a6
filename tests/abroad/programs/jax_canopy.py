# SPDX-License-Identifier: Apache-2.0
"""JAX with flax: height of trees from satellite tiles in a bucket. A thread with an asyncio loop downloads tiles by aiohttp and hands
on batches; the main thread trains."""

import argparse
import asyncio
import queue
import threading
from pathlib import Path

import aiohttp
import flax.linen as nn
import jax
import numpy as np
import optax
from flax.training.train_state import TrainState
from meter import Meter

TILE = 64  # pixels along an edge; four bands of one byte


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("bucket", help="URL")
    parser.add_argument("--local", type=Path, help="folder with a copy of the bucket")
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--ahead", type=int, default=4, help="batches that are kept ready")
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--log-every", type=int, default=20)
    return parser.parse_args()


class TileLoader(threading.Thread):
    def __init__(self, args):
        super().__init__(daemon=True)
        self.args, self.ready = args, queue.Queue(args.ahead)
        self.random = np.random.default_rng(0)

    async def download(self, session, gate, number):
        name = f"{number:05}.bin"
        if self.args.local:
            return (self.args.local / name).read_bytes()
        async with gate, session.get(f"{self.args.bucket}/{name}") as response:
            response.raise_for_status()
            return await response.read()

    async def main(self):
        gate = asyncio.Semaphore(self.args.connections)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=self.args.connections)) as session:
            for _ in range(self.args.steps):
                numbers = self.random.integers(0, 256, self.args.batch_size)
                tiles = await asyncio.gather(*(self.download(session, gate, number) for number in numbers))
                pixels = np.stack([np.frombuffer(tile, np.uint8).reshape(TILE, TILE, 4) for tile in tiles])
                height = pixels[..., :1].mean((1, 2)) / 128 + pixels[..., 3:].std((1, 2)) / 64
                await asyncio.to_thread(self.ready.put, (pixels.astype(np.float32) / 255, height.astype(np.float32)))
        self.ready.put(None)

    def run(self):
        asyncio.run(self.main())

    def __iter__(self):
        self.start()
        return iter(self.ready.get, None)


class HeightNet(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x):
        for stage in range(3):
            x = nn.Conv(self.features << stage, (3, 3), strides=2 if stage else 1)(x)
            x = nn.gelu(nn.GroupNorm(num_groups=8)(x))
        return nn.Dense(1)(x.mean((1, 2)))


@jax.jit
def train_step(state, pixels, height):
    def loss_fn(params):
        return optax.huber_loss(state.apply_fn({"params": params}, pixels), height).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


def main():
    args = parse_args()
    net = HeightNet(args.features)
    params = net.init(jax.random.key(0), np.zeros((1, TILE, TILE, 4), np.float32))["params"]
    schedule = optax.cosine_decay_schedule(1e-3, args.steps)
    state = TrainState.create(apply_fn=net.apply, params=params, tx=optax.adamw(schedule))
    meter = Meter(8, args.batch_size)
    for step, (pixels, height) in enumerate(TileLoader(args), 1):
        state, loss = train_step(state, pixels, height)
        if step % args.log_every == 0:
            print(f"step {step}: huber {float(loss):.4f}")
        meter.step()
    jax.block_until_ready(state.params)
    meter.print()


if __name__ == "__main__":
    main()
