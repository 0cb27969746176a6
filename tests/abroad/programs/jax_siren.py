# SPDX-License-Identifier: Apache-2.0
"""JAX with optax: an image as a network of sines (SIREN). Matplotlib draws the state of the fit for the animation on the project's page."""

import argparse
import tempfile
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import optax
from meter import Meter

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def target(xy):
    x, y = xy[:, 0], xy[:, 1]
    rings = jnp.sin(24 * jnp.hypot(x - 0.2, y + 0.1)) * jnp.exp(-2 * (x**2 + y**2))
    return rings + 0.5 * jnp.sign(jnp.sin(7 * x) * jnp.sin(5 * y))


def init_siren(key, sizes, omega):
    layers = []
    for number, (fan_in, fan_out) in enumerate(zip(sizes, sizes[1:])):
        key, key_w, key_b = jax.random.split(key, 3)
        bound = 1 / fan_in if number == 0 else (6 / fan_in) ** 0.5 / omega
        layers.append({
            "w": jax.random.uniform(key_w, (fan_in, fan_out), minval=-bound, maxval=bound),
            "b": jax.random.uniform(key_b, (fan_out,), minval=-bound, maxval=bound),
        })  # fmt: skip
    return layers


def siren(params, xy, omega):
    h = xy
    for layer in params[:-1]:
        h = jnp.sin(omega * (h @ layer["w"] + layer["b"]))
    return (h @ params[-1]["w"] + params[-1]["b"])[:, 0]


def draw(path, step, image, wanted, losses, dpi):
    figure, axes = plt.subplots(1, 3, figsize=(12, 4))
    for axis, pixels, title in ((axes[0], wanted, "target"), (axes[1], image, f"step {step}")):
        axis.imshow(pixels, cmap="magma", vmin=-1.5, vmax=1.5)
        axis.set_title(title)
        axis.set_axis_off()
    axes[2].semilogy(losses)
    axes[2].set_xlabel("step")
    axes[2].set_ylabel("mean squared error")
    axes[2].grid(True, which="both", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=dpi)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--frame-every", type=int, default=10)
    parser.add_argument("--frame-size", type=int, default=96)
    parser.add_argument("--dpi", type=int, default=100)
    parser.add_argument("--points", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--omega", type=float, default=30.0)
    parser.add_argument("--steps", type=int, default=190)
    args = parser.parse_args()

    params = init_siren(jax.random.key(1), [2, *[args.hidden] * args.layers, 1], args.omega)
    tx = optax.adam(optax.exponential_decay(3e-4, 100, 0.9))
    opt_state = tx.init(params)
    axis = jnp.linspace(-1, 1, args.frame_size)
    grid = jnp.stack(jnp.meshgrid(axis, axis), -1).reshape(-1, 2)
    wanted = target(grid).reshape(args.frame_size, -1)
    render = jax.jit(partial(siren, omega=args.omega))

    @jax.jit
    def step_fn(params, opt_state, key):
        xy = jax.random.uniform(key, (args.points, 2), minval=-1, maxval=1)
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((siren(p, xy, args.omega) - target(xy)) ** 2))(params)
        updates, opt_state = tx.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, loss

    meter = Meter(20, args.points)
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        for step, key in enumerate(jax.random.split(jax.random.key(2), args.steps), 1):
            params, opt_state, loss = step_fn(params, opt_state, key)
            losses.append(loss.item())
            if step % args.frame_every == 0:
                image = render(params, grid).reshape(args.frame_size, -1)
                draw(Path(folder) / f"frame_{step:06}.png", step, image, wanted, losses, args.dpi)
            meter.step()
    print(f"final mse {losses[-1]:.5f}")
    meter.print()


if __name__ == "__main__":
    main()
