# SPDX-License-Identifier: Apache-2.0
"""Keras 3's fit() on the backend of KERAS_BACKEND. First word: what it trains on ("tfdata", "pydataset", "torchloader"),
second: steps_per_execution. Timed where the data are made, as fit() shows its own waits nowhere: what lies between the
end of one step and the begin of the next is seen from inside the model, by layers that note the time."""

import os
import sys
import time

import keras
import numpy
from common import BATCH, SAMPLE_MS, SAMPLES, finish

kind, per_execution = sys.argv[1], int(sys.argv[2])
made = []


def numbers(index):
    return numpy.full((BATCH, 4), float(index), "float32"), numpy.ones((BATCH, 1), "float32")


class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return SAMPLES // BATCH

    def __getitem__(self, index):
        began = time.perf_counter()
        time.sleep(BATCH * SAMPLE_MS / 1e3)
        made.append(time.perf_counter() - began)
        return numbers(index)


def pipeline():
    import tensorflow as tf

    def batch(index):
        began = time.perf_counter()
        time.sleep(BATCH * SAMPLE_MS / 1e3)
        made.append(time.perf_counter() - began)
        x, y = numbers(float(index))
        return x, y

    def fetch(index):
        x, y = tf.py_function(batch, [index], [tf.float32, tf.float32])
        return tf.ensure_shape(x, [BATCH, 4]), tf.ensure_shape(y, [BATCH, 1])

    return tf.data.Dataset.range(SAMPLES // BATCH).map(fetch)


def torch_loader():
    from slow_data import Slow, torch

    return torch.utils.data.DataLoader(Slow(), batch_size=BATCH, num_workers=0)


data = {"tfdata": pipeline, "pydataset": Sequence, "torchloader": torch_loader}[kind]()
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse", steps_per_execution=per_execution)
began = time.perf_counter()
model.fit(data, epochs=2, verbose=0)  # loader
finish(made, 2 * SAMPLES // BATCH, backend=keras.backend.backend(), fit_s=time.perf_counter() - began)
