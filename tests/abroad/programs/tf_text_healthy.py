# SPDX-License-Identifier: Apache-2.0
"""Keras on TensorFlow: text classification with embeddings and convolutions; the data fits in memory and is cached and prefetched."""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--length", type=int, default=200)
parser.add_argument("--steps", type=int, default=120)
parser.add_argument("--prefetch", type=int, default=2)
args = parser.parse_args()
keras.utils.set_random_seed(0)


class Clock(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.meter = Meter(20, args.batch)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


texts = np.random.default_rng(0).integers(0, 5000, (args.steps * args.batch, args.length))
data = tf.data.Dataset.from_tensor_slices((texts, texts[:, 0] % 2)).batch(args.batch).prefetch(args.prefetch)
model = keras.Sequential([
    keras.Input((args.length,)), keras.layers.Embedding(5000, 96), keras.layers.Conv1D(96, 7, activation="relu"), keras.layers.Conv1D(96, 7, activation="relu"),
    keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(1),
])  # fmt: skip
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
clock = Clock()
model.fit(data, epochs=1, verbose=0, callbacks=[clock])
clock.meter.print()
