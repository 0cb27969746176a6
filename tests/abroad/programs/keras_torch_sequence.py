# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on PyTorch: fit() on a PyDataset whose batches come from a rendering service."""

import argparse
import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras  # noqa: E402
import numpy as np  # noqa: E402
from meter import Meter  # noqa: E402


class Rendered(keras.utils.PyDataset):
    def __init__(self, batches, batch, ms, **options):
        super().__init__(**options)
        self.batches, self.batch, self.seconds = batches, batch, ms / 1e3

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        time.sleep(self.seconds)
        x = np.random.default_rng(index).random((self.batch, 128), dtype=np.float32)
        return x, (x.sum(1) > 64).astype(np.float32)[:, None]


class Clock(keras.callbacks.Callback):
    def __init__(self, batch):
        super().__init__()
        self.meter = Meter(20, batch)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--max-queue-size", type=int, default=10)
    parser.add_argument("--render-ms", type=float, default=60)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--batches", type=int, default=130)
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    data = Rendered(args.batches, args.batch, args.render_ms, workers=args.workers, max_queue_size=args.max_queue_size)
    model = keras.Sequential([keras.Input((128,)), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    clock = Clock(args.batch)
    model.fit(data, epochs=1, verbose=0, shuffle=False, callbacks=[clock])
    clock.meter.print()


if __name__ == "__main__":
    main()
