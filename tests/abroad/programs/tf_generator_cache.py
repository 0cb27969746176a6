# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: Dataset.from_generator reads a remote table row by row, in each epoch again; custom loop with tf.function."""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=512)
parser.add_argument("--row-ms", type=float, default=1.5)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--cache", action="store_true")
parser.add_argument("--prefetch", type=int, default=0)
parser.add_argument("--eager", action="store_true")
args = parser.parse_args()
tf.random.set_seed(0)


def rows():
    for number in range(args.rows):
        time.sleep(args.row_ms / 1e3)
        yield np.full(64, number / args.rows, np.float32), np.float32(number % 2)


data = tf.data.Dataset.from_generator(rows, output_signature=(tf.TensorSpec((64,)), tf.TensorSpec(())))
data = data.cache() if args.cache else data
data = data.batch(args.batch)
data = data.prefetch(args.prefetch) if args.prefetch else data
model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(512, activation="relu"), tf.keras.layers.Dense(512, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(1e-3)


def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y[:, None], model(x, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


train_step = train_step if args.eager else tf.function(train_step)
meter = Meter(args.rows // args.batch, args.batch)
for epoch in range(args.epochs):
    for x, y in data:
        loss = train_step(x, y)
        meter.step()
    print(f"epoch {epoch}: {float(loss):.4f}")
meter.print()
