# SPDX-License-Identifier: Apache-2.0
"""JAX with optax: waves of an epidemic in 300 counties. A compartment model whose rate of contacts is a small network of mobility,
weather and season, fitted through its own forecast. The forecast grows with the training: a week at first, five in the end."""

import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from meter import Meter

INCUBATION, RECOVERY = 1 / 4.0, 1 / 7.0


def simulate(counties, days, features, seed=20):
    """Daily shares of (susceptible, exposed, infected, removed), and what is known of each day."""
    rng = np.random.default_rng(seed)
    t = np.arange(days)
    known = rng.normal(0, 1, (counties, days, features)).astype(np.float32)
    known[..., 0] = np.sin(t / 365 * 6.283 + rng.uniform(0, 0.5, (counties, 1)))
    known[..., 1:] = 0.2 * known[..., 1:].cumsum(1) / np.sqrt(np.arange(1, days + 1))[:, None]
    beta = 0.22 * np.exp(0.3 * known[..., 0] + 0.4 * known[..., 1])
    states = np.zeros((counties, days, 4), np.float32)
    s, e, i, r = np.full(counties, 0.995), np.full(counties, 0.003), np.full(counties, 0.002), np.zeros(counties)
    for day in range(days):
        states[:, day] = np.stack([s, e, i, r], 1)
        infected, ill, well = beta[:, day] * s * i, INCUBATION * e, RECOVERY * i
        s, e, i, r = s - infected + 0.004 * r, e + infected - ill, i + ill - well, 0.996 * r + well
    return states, known


def init_network(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [{"w": jax.random.normal(k, (a, b)) / jnp.sqrt(a), "b": jnp.zeros(b)} for k, a, b in zip(keys, sizes, sizes[1:])]


def contacts(params, known, state):
    h = jnp.concatenate([known, jnp.log(state + 1e-5)], -1)
    for layer in params[:-1]:
        h = jax.nn.silu(h @ layer["w"] + layer["b"])
    return 0.2 * jnp.exp((h @ params[-1]["w"] + params[-1]["b"])[..., 0].clip(-4, 4))


def forecast(params, state, known):
    """Shares of the infected: known is (days, windows, features)."""

    def day(state, today):
        s, e, i, r = state.T
        infected, ill, well = contacts(params, today, state) * s * i, INCUBATION * e, RECOVERY * i
        state = jnp.stack([s - infected + 0.004 * r, e + infected - ill, i + ill - well, 0.996 * r + well], 1)
        return state, jnp.log(state[:, 2] + 1e-5)

    return jax.lax.scan(day, state, known)[1]


def make_step(optimizer):
    def windows(array, county, start, days):
        return jax.vmap(lambda c, at: jax.lax.dynamic_slice_in_dim(array[c], at, days))(county, start).swapaxes(0, 1)

    @partial(jax.jit, static_argnames="days")
    def step(params, opt_state, states, known, county, start, days, counted):
        past, wanted = states[county, start], jnp.log(windows(states, county, start + 1, days)[..., 2] + 1e-5)
        weights = (jnp.arange(days) < counted) / counted

        def loss_of(params):
            errors = jnp.square(forecast(params, past, windows(known, county, start, days)) - wanted)
            return (errors.mean(1) * weights).sum()

        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--counties", type=int, default=300)
    parser.add_argument("--days", type=int, default=700)
    parser.add_argument("--windows", type=int, default=256, help="in a batch")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--first-horizon", type=int, default=7)
    parser.add_argument("--last-horizon", type=int, default=35)
    parser.add_argument("--horizon", choices=["daily", "weekly", "fortnightly", "masked"], default="daily", help="how the forecast grows")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--steps", type=int, default=270)
    parser.add_argument("--print-every", type=int, default=30)
    args = parser.parse_args()

    states, known = simulate(args.counties, args.days, features=6)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(args.lr, args.steps)))
    params = init_network(jax.random.key(20), [10, args.width, args.width, 1])
    opt_state = optimizer.init(params)
    step_fn, states, known = make_step(optimizer), jnp.asarray(states), jnp.asarray(known)
    rng, meter = np.random.default_rng(21), Meter(15, args.windows)
    stride = {"daily": 1, "weekly": 7, "fortnightly": 14, "masked": 1}[args.horizon]
    for step in range(1, args.steps + 1):
        grown = args.first_horizon + (args.last_horizon - args.first_horizon) * step // args.steps
        horizon = min(args.last_horizon, -(-grown // stride) * stride)
        county = rng.integers(0, args.counties, args.windows)
        start = rng.integers(0, args.days - args.last_horizon - 1, args.windows)
        days = args.last_horizon if args.horizon == "masked" else horizon
        params, opt_state, loss = step_fn(params, opt_state, states, known, county, start, days=days, counted=horizon)
        if step % args.print_every == 0:
            print(f"step {step}: {horizon} days ahead, squared error of the logarithm {float(loss):.4f}", flush=True)
        meter.step()
    jax.block_until_ready(params)
    meter.print()


if __name__ == "__main__":
    main()
