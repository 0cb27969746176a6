# SPDX-License-Identifier: Apache-2.0
"""Keras on TensorFlow: power consumption of the next day from the past week, windows by timeseries_dataset_from_array, a GRU."""

import argparse
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from meter import Meter  # noqa: E402

WEEK, DAY = 168, 24


class Clock(keras.callbacks.Callback):
    def __init__(self, batch):
        super().__init__()
        self.meter = Meter(20, batch)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


class WriteLosses(keras.callbacks.Callback):
    def __init__(self, path, every):
        super().__init__()
        self.path, self.every = path, every

    def on_train_batch_end(self, batch, logs=None):
        if batch % self.every == 0:
            with open(self.path, "a") as file:
                file.write(f"{batch},{float(logs['loss']):.5f}\n")


def windows(values, args):
    """A week of all areas, and the day after it of the first area."""
    following = np.lib.stride_tricks.sliding_window_view(values[WEEK:, 0], DAY)
    data = keras.utils.timeseries_dataset_from_array(
        values[: len(following)],
        following,
        WEEK,
        sequence_stride=args.stride,
        batch_size=None,
        shuffle=True,
        seed=0,
    )
    data = data.cache() if args.cache else data
    return data.batch(args.batch, drop_remainder=True).prefetch(args.prefetch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--csv", required=True)
    parser.add_argument("--stride", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument(
        "--cache", action="store_true", help="keep the windows in memory"
    )
    parser.add_argument(
        "--write-every",
        type=int,
        default=50,
        help="steps between lines of the loss file",
    )
    parser.add_argument("--units", type=int, default=96)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=130)
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    values = pd.read_csv(args.csv, index_col="date").to_numpy(np.float32)
    values = (values - values.mean(0)) / values.std(0)
    model = keras.Sequential([
        keras.Input((WEEK, values.shape[1])), keras.layers.Conv1D(args.units, 3, activation="relu"),
        keras.layers.GRU(args.units), keras.layers.Dense(args.units, activation="relu"), keras.layers.Dense(DAY),
    ])  # fmt: skip
    model.compile(keras.optimizers.Adam(1e-3), "mae")
    clock = Clock(args.batch)
    with tempfile.TemporaryDirectory() as folder:
        losses = WriteLosses(os.path.join(folder, "losses.csv"), args.write_every)
        model.fit(
            windows(values, args).repeat(),
            steps_per_epoch=args.steps,
            epochs=1,
            verbose=0,
            callbacks=[losses, clock],
        )
    clock.meter.print()


if __name__ == "__main__":
    main()
