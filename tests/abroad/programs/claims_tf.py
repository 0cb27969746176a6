# SPDX-License-Identifier: Apache-2.0
"""Predicts what an insurance claim will cost. The claimant's history is looked up in a feature service while the claims are read."""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from meter import Meter

KINDS, PLACES, HISTORY = 40, 300, 24


class FeatureService:
    """Stands for the company's service: the last payments of a customer, after the time of one call."""

    def __init__(self, call_ms, customers=5000):
        self.call_s = call_ms / 1e3
        self.payments = np.random.default_rng(17).lognormal(5, 1, (customers, HISTORY)).astype(np.float32)

    def history(self, customer):
        time.sleep(self.call_s)
        payments = self.payments[int(customer) % len(self.payments)]
        return np.log1p(payments)


def make_claims(count):
    rng = np.random.default_rng(18)
    claims = {
        "customer": rng.integers(0, 1_000_000, count),
        "kind": rng.integers(0, KINDS, count),
        "place": rng.integers(0, PLACES, count),
        "numbers": rng.standard_normal((count, 12), dtype=np.float32),
    }
    cost = 6 + 0.05 * claims["kind"] + claims["numbers"][:, 0] + rng.normal(0, 0.3, count)
    return claims, cost.astype(np.float32)


def make_dataset(claims, cost, service, args):
    def with_history(claim, target):
        history = tf.numpy_function(service.history, [claim["customer"]], tf.float32)
        history.set_shape([HISTORY])
        return {**claim, "history": history}, target

    data = tf.data.Dataset.from_tensor_slices((claims, cost)).shuffle(2000, seed=18)
    data = data.map(with_history, num_parallel_calls=args.parallel_calls or None)
    if args.cache:
        data = data.cache()
    data = data.repeat(args.epochs).batch(args.batch_size, drop_remainder=True)
    return data.prefetch(args.prefetch) if args.prefetch else data


class CostModel(tf.keras.Model):
    def __init__(self, width):
        super().__init__()
        self.kind, self.place = (tf.keras.layers.Embedding(KINDS, 16), tf.keras.layers.Embedding(PLACES, 16))
        self.trend = tf.keras.layers.Conv1D(32, 5, activation="relu")
        self.pool = tf.keras.layers.GlobalAveragePooling1D()
        self.hidden = [tf.keras.layers.Dense(width, activation="relu") for _ in range(4)]
        self.out = tf.keras.layers.Dense(1)

    def call(self, claim):
        history = self.pool(self.trend(claim["history"][..., None]))
        x = tf.concat([self.kind(claim["kind"]), self.place(claim["place"]), claim["numbers"], history], 1)
        for layer in self.hidden:
            x = layer(x)
        return self.out(x)[:, 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=260)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--parallel-calls", type=int, default=0, help="calls to the service at a time; 0: one after the other")
    parser.add_argument("--prefetch", type=int, default=1, help="batches")
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("--call-ms", type=float, default=2.0)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--log-every", type=int, default=25)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    tf.keras.utils.set_random_seed(18)

    claims, cost = make_claims(args.steps * args.batch_size // args.epochs)
    dataset = make_dataset(claims, cost, FeatureService(args.call_ms), args)
    model = CostModel(args.width)
    optimizer = tf.keras.optimizers.Adam(args.lr)
    error = tf.keras.losses.Huber()

    @tf.function
    def train_step(claim, target):
        with tf.GradientTape() as tape:
            loss = error(target, model(claim, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    meter = Meter(15, args.batch_size)
    for step, (claim, target) in enumerate(dataset, 1):
        loss = train_step(claim, target)
        if step % args.log_every == 0:
            print(f"step {step}: error {float(loss):.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
