# SPDX-License-Identifier: Apache-2.0
"""Keras on TensorFlow: promoters in DNA. A PyDataset cuts windows out of a chromosome, turns some of them around and encodes the letters."""

import argparse
import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras  # noqa: E402
import numpy as np  # noqa: E402
from meter import Meter  # noqa: E402

ONE_HOT = {
    "A": [1, 0, 0, 0],
    "C": [0, 1, 0, 0],
    "G": [0, 0, 1, 0],
    "T": [0, 0, 0, 1],
    "N": [0, 0, 0, 0],
}
OTHER = {"A": "T", "C": "G", "G": "C", "T": "A", "N": "N"}
TABLE = np.zeros((256, 4), np.float32)
for letter, row in ONE_HOT.items():
    TABLE[ord(letter)] = row


class Windows(keras.utils.PyDataset):
    def __init__(self, chromosome, length, batch, batches, table, **options):
        super().__init__(**options)
        self.chromosome, self.length, self.batch, self.batches, self.table = (
            chromosome,
            length,
            batch,
            batches,
            table,
        )
        self.bytes = np.frombuffer(chromosome.encode(), np.uint8)

    def __len__(self):
        return self.batches

    def encode(self, start, turned):
        if self.table:  # the columns are A, C, G, T: turned around in both directions is the other strand
            window = TABLE[self.bytes[start : start + self.length]]
            return window[::-1, ::-1] if turned else window
        window = self.chromosome[start : start + self.length]
        if turned:
            window = "".join(OTHER[letter] for letter in reversed(window))
        return np.array([ONE_HOT[letter] for letter in window], np.float32)

    def __getitem__(self, index):
        dice = random.Random(index)
        starts = [
            dice.randrange(len(self.chromosome) - self.length)
            for _ in range(self.batch)
        ]
        x = np.stack([self.encode(start, dice.random() < 0.5) for start in starts])
        return x, np.array([[start % 2] for start in starts], np.float32)


class Clock(keras.callbacks.Callback):
    def __init__(self, batch):
        super().__init__()
        self.meter = Meter(20, batch)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--table",
        action="store_true",
        help="encode by a NumPy table instead of letter by letter",
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--multiprocessing", action="store_true")
    parser.add_argument("--max-queue-size", type=int, default=10)
    parser.add_argument("--length", type=int, default=2400)
    parser.add_argument("--filters", type=int, default=16)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--batches", type=int, default=320)
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    chromosome = "".join(random.choices("ACGTN", (30, 20, 20, 29, 1), k=1_000_000))
    data = Windows(
        chromosome, args.length, args.batch, args.batches, args.table,
        workers=args.workers, use_multiprocessing=args.multiprocessing, max_queue_size=args.max_queue_size,
    )  # fmt: skip
    model = keras.Sequential([
        keras.Input((args.length, 4)), keras.layers.Conv1D(args.filters, 19, strides=2, activation="relu"), keras.layers.MaxPooling1D(4),
        keras.layers.Conv1D(2 * args.filters, 7, activation="relu"), keras.layers.MaxPooling1D(4), keras.layers.Conv1D(2 * args.filters, 5, activation="relu"),
        keras.layers.GlobalMaxPooling1D(), keras.layers.Dropout(0.2), keras.layers.Dense(1),
    ])  # fmt: skip
    model.compile(
        "adam", keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    clock = Clock(args.batch)
    model.fit(data, epochs=1, verbose=0, shuffle=False, callbacks=[clock])
    clock.meter.print()


if __name__ == "__main__":
    main()
