# SPDX-License-Identifier: Apache-2.0
"""Keras on JAX: churn of customers from their monthly histories. A callback asks scikit-learn for the AUC on held-out customers."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers  # noqa: E402
from meter import Meter  # noqa: E402
from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

MONTHS, COLUMNS = 24, 32


def customers(count):
    rng = np.random.default_rng(12)
    history = rng.gamma(2.0, 1.0, (count, MONTHS, COLUMNS)).astype(np.float32)
    trend = history[:, -6:, :4].mean((1, 2)) - history[:, :-6, :4].mean((1, 2))
    churned = (trend + rng.normal(0, 0.2, count) < -0.1).astype(np.float32)
    return train_test_split(history, churned, test_size=0.25, random_state=12, stratify=churned)


class RocAuc(keras.callbacks.Callback):
    def __init__(self, x, y, every, batch_size):
        super().__init__()
        self.x, self.y, self.every, self.batch_size = x, y, every, batch_size
        self.best = 0.0

    def on_train_batch_end(self, batch, logs=None):
        if (batch + 1) % self.every:
            return
        scores = self.model.predict(self.x, batch_size=self.batch_size, verbose=0)[:, 0]
        auc, precision = roc_auc_score(self.y, scores), average_precision_score(self.y, scores)
        self.best = max(self.best, auc)
        print(f"batch {batch + 1}: loss {logs['loss']:.4f} auc {auc:.4f} (best {self.best:.4f}) ap {precision:.4f}")


class Timing(keras.callbacks.Callback):
    def __init__(self, batch_size):
        super().__init__()
        self.meter = Meter(25, batch_size)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


def build(width):
    inputs = keras.Input((MONTHS, COLUMNS))
    x = layers.Dense(width)(inputs)
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, width // 4)(layers.LayerNormalization()(x), layers.LayerNormalization()(x))
        x = layers.Add()([x, attended])
        x = layers.Add()([x, layers.Dense(width)(layers.Dense(2 * width, activation="gelu")(layers.LayerNormalization()(x)))])
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--auc-every", type=int, default=20, help="batches between two looks at the held-out customers")
    parser.add_argument("--predict-batch-size", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--customers", type=int, default=15_000)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    keras.utils.set_random_seed(12)
    x_train, x_valid, y_train, y_valid = customers(args.customers)
    scaler = StandardScaler().fit(x_train.reshape(-1, COLUMNS))
    x_train = scaler.transform(x_train.reshape(-1, COLUMNS)).reshape(x_train.shape)
    x_valid = scaler.transform(x_valid.reshape(-1, COLUMNS)).reshape(x_valid.shape)
    model = build(args.width)
    model.compile(keras.optimizers.AdamW(1e-3), "binary_crossentropy")
    timing = Timing(args.batch_size)
    callbacks = [RocAuc(x_valid, y_valid, args.auc_every, args.predict_batch_size), timing]
    model.fit(x_train, y_train, batch_size=args.batch_size, epochs=args.epochs, verbose=0, callbacks=callbacks)
    timing.meter.print()


if __name__ == "__main__":
    main()
