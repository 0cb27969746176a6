# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on JAX: fit() on a PyDataset that loads and augments arrays."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import keras  # noqa: E402
import numpy as np  # noqa: E402
from meter import Meter  # noqa: E402


class Augmented(keras.utils.PyDataset):
    """Elastic noise by a large Fourier transform, one image after the other."""

    def __init__(self, batches, batch, precomputed, **options):
        super().__init__(**options)
        self.batches, self.batch = batches, batch
        self.images = np.random.default_rng(0).random((16, 192, 192)).astype(np.float32)
        self.ready = [self.augment(image) for image in self.images] if precomputed else None

    def __len__(self):
        return self.batches

    def augment(self, image):
        spectrum = np.fft.fft2(image)
        spectrum *= np.exp(-np.hypot(*np.meshgrid(np.arange(192), np.arange(192))) / 64)
        return np.abs(np.fft.ifft2(spectrum)).astype(np.float32)[::6, ::6]

    def __getitem__(self, index):
        chosen = [(index + offset) % 16 for offset in range(self.batch)]
        x = np.stack([self.ready[one] if self.ready else self.augment(self.images[one]) for one in chosen])
        return x[..., None], np.array(chosen) % 10


class Clock(keras.callbacks.Callback):
    def __init__(self, batch):
        super().__init__()
        self.meter = Meter(20, batch)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--precomputed", action="store_true")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--batches", type=int, default=140)
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    data = Augmented(args.batches, args.batch, args.precomputed, workers=args.workers, use_multiprocessing=False)
    model = keras.Sequential([keras.Input((32, 32, 1)), keras.layers.Conv2D(16, 3, 2, activation="relu"), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    clock = Clock(args.batch)
    model.fit(data, epochs=1, verbose=0, shuffle=False, callbacks=[clock])
    clock.meter.print()


if __name__ == "__main__":
    main()
