# SPDX-License-Identifier: Apache-2.0
"""Keras 3's fit() on the backend of KERAS_BACKEND. First word: what it trains on ("tfdata", "pydataset", "torchloader"),
second: steps_per_execution, third: "eager" or nothing. fit() shows its waits nowhere, on TensorFlow they happen inside a graph: timed is the making
of each batch, with nothing prefetched, so that training waits for all of it; on torch, the epoch iterator."""

import sys
import time

import keras
import numpy
from common import BATCH, SAMPLE_MS, SAMPLES, Waits, finish

kind, per_execution = sys.argv[1], int(sys.argv[2])
made = Waits()


def numbers(index):
    return numpy.full((BATCH, 4), float(index), "float32"), numpy.ones((BATCH, 1), "float32")


class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return SAMPLES // BATCH

    def __getitem__(self, index):
        began = time.monotonic_ns()
        time.sleep(BATCH * SAMPLE_MS / 1e3)
        made.note(began)
        return numbers(index)


def pipeline():
    import tensorflow as tf

    def batch(index):
        began = time.monotonic_ns()
        time.sleep(BATCH * SAMPLE_MS / 1e3)
        made.note(began)
        x, y = numbers(float(index))
        return x, y

    def fetch(index):
        x, y = tf.py_function(batch, [index], [tf.float32, tf.float32])
        return tf.ensure_shape(x, [BATCH, 4]), tf.ensure_shape(y, [BATCH, 1])

    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.range(SAMPLES // BATCH).map(fetch).with_options(options)


def torch_loader():
    from keras.src.trainers.epoch_iterator import EpochIterator
    from slow_data import Slow, torch

    EpochIterator.__next__ = made.timed(EpochIterator.__next__)
    return torch.utils.data.DataLoader(Slow(), batch_size=BATCH, num_workers=2)  # loader


data = {"tfdata": pipeline, "pydataset": Sequence, "torchloader": torch_loader}[kind]()
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse", steps_per_execution=per_execution, run_eagerly="eager" in sys.argv)
model.fit(data, epochs=2, verbose=0)  # fit
finish(made, 2 * SAMPLES // BATCH)
