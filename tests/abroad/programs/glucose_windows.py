# SPDX-License-Identifier: Apache-2.0
"""Blood glucose in an hour, with quantiles, from five-minute readings of a sensor. From the notebook `05_generator_final_v2`."""

import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402

ap = argparse.ArgumentParser()
ap.add_argument("--feed", choices=["windows", "batches", "tensors"], default="windows", help="what the generator gives, or no generator")
ap.add_argument("--readers", type=int, default=1, help="generators that are interleaved")
ap.add_argument("--prefetch", type=int, default=2)
ap.add_argument("--shuffle", type=int, default=2000)
ap.add_argument("--batch-size", type=int, default=64)
ap.add_argument("--epochs", type=int, default=1)
ap.add_argument("--patients", type=int, default=8)
ap.add_argument("--units", type=int, default=64)
args = ap.parse_args()

LOOKBACK, AHEAD, COLS = 72, 12, ["glucose", "insulin", "carbs", "heart_rate", "steps", "hour_sin", "hour_cos"]
QUANTILES = tf.constant([0.1, 0.5, 0.9])

# %% data
rng = np.random.default_rng(3)


def make_patient(days=20):
    index = pd.date_range("2025-03-01", periods=days * 288, freq="5min")
    df = pd.DataFrame(index=index)
    meals = (rng.random(len(df)) < 0.012) * rng.uniform(20, 90, len(df))
    effect = np.convolve(meals, np.exp(-np.arange(60) / 15.0))[: len(df)]
    df["glucose"] = (110 + effect + rng.normal(0, 6, len(df))).clip(40, 400)
    df["insulin"], df["carbs"] = np.roll(meals, 2) / 10, meals
    df["heart_rate"] = 70 + 10 * rng.standard_normal(len(df))
    df["steps"] = rng.poisson(15, len(df)).astype(float)
    angle = 2 * np.pi * (index.hour + index.minute / 60) / 24
    df["hour_sin"], df["hour_cos"] = np.sin(angle), np.cos(angle)
    return (df - df.mean()) / df.std()


patients = {f"P{number:03}": make_patient() for number in range(args.patients)}


# %% input
def gen(reader):
    names = list(patients)[reader :: args.readers]
    order = [(name, start) for name in names for start in range(0, len(patients[name]) - LOOKBACK - AHEAD, 4)]
    np.random.default_rng(reader).shuffle(order)
    for name, start in order:
        window = patients[name].iloc[start : start + LOOKBACK + AHEAD]
        yield window[COLS].iloc[:LOOKBACK].to_numpy(np.float32), np.float32(window["glucose"].iloc[-1])


def arrays():
    xs, ys = [], []
    for df in patients.values():
        views = np.lib.stride_tricks.sliding_window_view(df[COLS].to_numpy(np.float32), LOOKBACK + AHEAD, 0)[::4].transpose(0, 2, 1)
        xs.append(views[:, :LOOKBACK])
        ys.append(views[:, -1, 0])
    return np.concatenate(xs), np.concatenate(ys)


def gen_batches():
    x, y = arrays()
    order = np.random.default_rng(0).permutation(len(y))
    for at in range(0, len(y) - args.batch_size + 1, args.batch_size):
        rows = order[at : at + args.batch_size]
        yield x[rows], y[rows]


def make_ds():
    spec = (tf.TensorSpec((LOOKBACK, len(COLS)), tf.float32), tf.TensorSpec((), tf.float32))
    if args.feed == "batches":
        spec = tuple(tf.TensorSpec((None, *part.shape), part.dtype) for part in spec)
        return tf.data.Dataset.from_generator(gen_batches, output_signature=spec).prefetch(args.prefetch)
    if args.feed == "tensors":
        ds = tf.data.Dataset.from_tensor_slices(arrays())
    else:
        readers = tf.data.Dataset.range(args.readers)
        ds = readers.interleave(
            lambda reader: tf.data.Dataset.from_generator(gen, output_signature=spec, args=(reader,)),
            cycle_length=args.readers,
            num_parallel_calls=args.readers,
        )
    return ds.shuffle(args.shuffle, seed=0).batch(args.batch_size, drop_remainder=True).prefetch(args.prefetch)


# %% model
class QuantileLSTM(tf.keras.Model):
    def __init__(self, units):
        super().__init__()
        self.norm = tf.keras.layers.LayerNormalization()
        self.lstm = tf.keras.layers.LSTM(units)
        self.hidden, self.out = tf.keras.layers.Dense(units, activation="relu"), tf.keras.layers.Dense(3)

    def call(self, x, training=False):
        return self.out(self.hidden(self.lstm(self.norm(x))))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            error = y[:, None] - self(x, training=True)
            loss = tf.reduce_mean(tf.maximum(QUANTILES * error, (QUANTILES - 1) * error))
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return {"pinball": loss}


meter = Meter(20, args.batch_size)
tf.random.set_seed(0)
model = QuantileLSTM(args.units)
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3))
tick = tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: meter.step())
history = model.fit(make_ds(), epochs=args.epochs, verbose=0, callbacks=[tick])
print("pinball", history.history["pinball"][-1])
meter.print()
