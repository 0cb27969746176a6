# SPDX-License-Identifier: Apache-2.0
"""Keras on TensorFlow: the water level in a harbour for the next three hours, from two days of tide gauges, wind and air pressure
along the coast, every ten minutes. Windows over the record are made by tf.data."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import click
import keras
import numpy as np
import tensorflow as tf
from meter import Meter

HOUR = 6
PAST, AHEAD = 48 * HOUR, 3 * HOUR
SERIES = ["level", "level north", "level south", "wind east", "wind north", "gusts", "pressure", "pressure tendency"]


def make_record(days, seed=31):
    """Tides of three periods, and storms that come along and pile up the water."""
    rng = np.random.default_rng(seed)
    t = np.arange(days * 24 * HOUR) / HOUR
    tide = sum(height * np.sin(2 * np.pi * t / period + phase) for height, period, phase in ((1.2, 12.42, 0), (0.4, 12.0, 1), (0.2, 25.82, 2)))
    storms = np.zeros_like(t)
    for begin in rng.uniform(0, t[-1], days // 6):
        storms += rng.gamma(2, 0.3) * np.exp(-0.5 * ((t - begin) / 9) ** 2)
    late = np.roll(storms, 2 * HOUR)
    columns = [tide + late, np.roll(tide, 9) + storms, np.roll(tide, -7) + np.roll(late, 9), 9 * storms, -6 * storms, 14 * storms, -20 * storms, -20 * np.gradient(storms)]
    record = np.stack(columns, 1) + rng.normal(0, 0.05, (len(t), len(SERIES)))
    return ((record - record.mean(0)) / record.std(0)).astype(np.float32)


def split(window):
    return window[:PAST], window[PAST:, 0]


def by_window(record, shift, calls):
    """Datasets of rows become tensors, window by window."""
    length = PAST + AHEAD
    rows = tf.data.Dataset.from_tensor_slices(record)
    windows = rows.window(length, shift=shift, drop_remainder=True)
    windows = windows.flat_map(lambda window: window.batch(length, drop_remainder=True))
    return windows.map(split, num_parallel_calls=calls)


def by_slice(record, shift, calls):
    """The record is one tensor, a window is a slice of it."""
    length, whole = PAST + AHEAD, tf.constant(record)
    starts = tf.data.Dataset.range(0, len(record) - length + 1, shift)
    return starts.map(lambda start: split(tf.ensure_shape(whole[start : start + length], (length, len(SERIES)))), num_parallel_calls=calls)


def by_utility(record, shift, _):
    windows = keras.utils.timeseries_dataset_from_array(record, None, PAST + AHEAD, sequence_stride=shift, batch_size=None)
    return windows.map(lambda window: split(tf.ensure_shape(window, (PAST + AHEAD, len(SERIES)))))


MAKERS = {"window": by_window, "slice": by_slice, "utility": by_utility}


def make_model(width):
    past = keras.Input((PAST, len(SERIES)))
    x = keras.layers.Conv1D(width, 7, 2, padding="same", activation="gelu")(past)
    for rate in (1, 2, 4):
        y = keras.layers.SeparableConv1D(width, 5, padding="same", dilation_rate=rate, activation="gelu")(x)
        x = keras.layers.LayerNormalization()(x + y)
    x = keras.layers.Concatenate()([x[:, -1], keras.layers.GlobalAveragePooling1D()(x)])
    x = keras.layers.Dense(2 * width, activation="gelu")(x)
    return keras.Model(past, keras.layers.Dense(AHEAD)(x))


class Clock(keras.callbacks.Callback):
    def __init__(self, warmup, batch_size):
        super().__init__()
        self.meter = Meter(warmup, batch_size)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


class Progress(keras.callbacks.Callback):
    def __init__(self, every):
        super().__init__()
        self.every = every

    def on_train_batch_end(self, batch, logs=None):
        if (batch + 1) % self.every == 0:
            print(f"batch {batch + 1}: error {float(logs['loss']):.4f}", flush=True)


@click.command(context_settings={"show_default": True})
@click.option("--days", default=44, help="of the record")
@click.option("--shift", default=3, help="ten minutes from one window to the next")
@click.option("--windows", type=click.Choice(list(MAKERS)), default="window")
@click.option("--parallel-calls", default=0, help="0: TensorFlow decides")
@click.option("--shuffle-buffer", default=600)
@click.option("--cache", is_flag=True, help="keep windows in memory")
@click.option("--prefetch", default=2)
@click.option("--batch-size", default=32)
@click.option("--epochs", default=3)
@click.option("--width", default=32)
@click.option("--jit", is_flag=True, help="XLA")
@click.option("--print-every", default=25)
def main(days, shift, windows, parallel_calls, shuffle_buffer, cache, prefetch, batch_size, epochs, width, jit, print_every):
    keras.utils.set_random_seed(31)
    record = make_record(days)
    data = MAKERS[windows](record, shift, parallel_calls or tf.data.AUTOTUNE)
    if cache:
        data = data.cache()
    data = data.shuffle(shuffle_buffer, seed=31).batch(batch_size, drop_remainder=True).prefetch(prefetch)
    steps = ((len(record) - PAST - AHEAD) // shift + 1) // batch_size
    model = make_model(width)
    model.compile(keras.optimizers.AdamW(1e-3), "huber", jit_compile=jit)
    clock = Clock(steps, batch_size)  # the first epoch compiles, and fills the cache if there is one
    model.fit(data, epochs=epochs, verbose=0, callbacks=[clock, Progress(print_every)])
    clock.meter.print()


if __name__ == "__main__":
    main()
