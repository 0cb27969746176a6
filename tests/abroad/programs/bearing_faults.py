# SPDX-License-Identifier: Apache-2.0
"""Condition monitoring: faults of rolling bearings by vibration (three axes, 12.8 kHz). Keras; settings come from dataclasses."""

import argparse
import csv
import dataclasses
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402


@dataclass
class DataConfig:
    windows: int = 3840
    length: int = 512
    axes: int = 3
    faults: int = 6
    batch_size: int = 32
    prefetch: int = 2
    cache: bool = False


@dataclass
class TrainingConfig:
    data: DataConfig = field(default_factory=DataConfig)
    learning_rate: float = 1e-3
    filters: int = 24
    blocks: int = 3
    debug: bool = True  # TODO(mk): since the shape problem of the gearbox customer
    csv_every: int = 25
    jit: bool = False


class VibrationSource:
    """Stands for the historian's export: impacts at the fault's frequency on top of the shaft's tone and noise."""

    def __init__(self, config: DataConfig):
        rng = np.random.default_rng(31)
        t = np.arange(config.length, dtype=np.float32) / 12800
        self.labels = rng.integers(0, config.faults, config.windows).astype(np.int32)
        rate = 90 + 37 * self.labels[:, None]
        impacts = np.exp(-((t * rate) % 1) * 9) * np.sin(2 * np.pi * 3100 * t)
        signal = impacts[..., None] * rng.uniform(0.4, 1.2, (config.windows, 1, config.axes))
        self.signals = (signal + rng.normal(0, 0.5, signal.shape)).astype(np.float32)

    def dataset(self, config: DataConfig):
        ds = tf.data.Dataset.from_tensor_slices((self.signals, self.labels)).shuffle(len(self.labels), seed=31)
        ds = ds.map(lambda x, y: (x * tf.random.uniform((), 0.8, 1.2), y), num_parallel_calls=2)
        if config.cache:
            ds = ds.cache()
        return ds.batch(config.batch_size, drop_remainder=True).prefetch(config.prefetch)


def residual(x, filters, stride):
    y = keras.layers.Conv1D(filters, 9, strides=stride, padding="same", use_bias=False)(x)
    y = keras.layers.Activation("relu")(keras.layers.BatchNormalization()(y))
    y = keras.layers.BatchNormalization()(keras.layers.Conv1D(filters, 5, padding="same", use_bias=False)(y))
    return keras.layers.Activation("relu")(keras.layers.Add()([y, keras.layers.Conv1D(filters, 1, strides=stride)(x)]))


class ProgressFile(keras.callbacks.Callback):
    def __init__(self, path: Path, every: int):
        super().__init__()
        self.path, self.every = path, every

    def on_train_batch_end(self, batch, logs=None):
        if batch % self.every == 0:
            with self.path.open("a", newline="") as file:
                csv.writer(file).writerow([time.time(), batch, logs["loss"], logs["accuracy"]])


class Throughput(keras.callbacks.Callback):
    def __init__(self, batch_size: int):
        super().__init__()
        self.meter = Meter(10, batch_size)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


def run(config: TrainingConfig):
    keras.utils.set_random_seed(31)
    inputs = keras.Input((config.data.length, config.data.axes))
    x = inputs
    for number in range(config.blocks):
        x = residual(x, config.filters * 2 ** (number // 2), 2)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(config.data.faults, activation="softmax")(x))
    model.compile(
        optimizer=keras.optimizers.Adam(config.learning_rate), loss="sparse_categorical_crossentropy", metrics=["accuracy"],
        run_eagerly=config.debug, jit_compile=config.jit and not config.debug,
    )  # fmt: skip
    throughput = Throughput(config.data.batch_size)
    with tempfile.TemporaryDirectory() as folder:
        progress = ProgressFile(Path(folder) / "progress.csv", config.csv_every)
        history = model.fit(VibrationSource(config.data).dataset(config.data), epochs=1, verbose=0, callbacks=[progress, throughput])
    print(f"accuracy {history.history['accuracy'][-1]:.3f} loss {history.history['loss'][-1]:.3f}")
    throughput.meter.print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for cls in (DataConfig, TrainingConfig):
        for option in dataclasses.fields(cls):
            if option.name != "data":
                kind = {"action": argparse.BooleanOptionalAction} if option.type is bool else {"type": option.type}
                parser.add_argument("--" + option.name.replace("_", "-"), default=option.default, **kind)
    given = vars(parser.parse_args())
    data = DataConfig(**{option.name: given.pop(option.name) for option in dataclasses.fields(DataConfig)})
    run(TrainingConfig(data=data, **given))
