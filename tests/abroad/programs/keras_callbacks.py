# SPDX-License-Identifier: Apache-2.0
"""Keras on TensorFlow with data in memory and the callbacks of a careful person: ModelCheckpoint, CSV."""

import argparse
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras  # noqa: E402
import numpy as np  # noqa: E402
from meter import Meter  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--save-freq", type=int, default=5, help="batches")
parser.add_argument("--units", type=int, default=1400)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--steps", type=int, default=140)
args = parser.parse_args()
keras.utils.set_random_seed(0)


class Clock(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.meter = Meter(20, args.batch)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


x = np.random.default_rng(0).random((args.steps * args.batch, 256), dtype=np.float32)
model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(args.units, activation="relu"), keras.layers.Dense(args.units, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
clock = Clock()
with tempfile.TemporaryDirectory() as folder:
    saving = keras.callbacks.ModelCheckpoint(os.path.join(folder, "model.keras"), save_freq=args.save_freq)
    model.fit(x, x.mean(1), batch_size=args.batch, epochs=1, verbose=0, callbacks=[saving, clock])
clock.meter.print()
