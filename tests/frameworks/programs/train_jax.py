# SPDX-License-Identifier: Apache-2.0
"""JAX on the CPU: a jitted step over batches of a generator that computes them. Nothing here passes through a loader."""

import time

import jax
import jax.numpy as jnp
import numpy


def batches(seconds):
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass  # generator
        yield numpy.ones((32, 8), "float32"), numpy.ones((32, 1), "float32")


@jax.jit
def step(weight, x, y):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(weight)
    return weight - 0.01 * gradient, loss


weight = jnp.zeros((8, 1))
for x, y in batches(6):
    weight, loss = step(weight, x, y)
print(float(loss))
