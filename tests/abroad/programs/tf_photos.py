# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: tf.data from JPEG files, decoded and resized in a map, then Keras fit()."""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--photos", required=True)
parser.add_argument("--parallel-calls", type=int, default=0)
parser.add_argument("--prefetch", type=int, default=0)
parser.add_argument("--cache", action="store_true", help="keep decoded images in memory")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--steps", type=int, default=150)
args = parser.parse_args()
tf.random.set_seed(0)


def decode(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (64, 64)) / 255.0, tf.strings.to_number(tf.strings.substr(tf.strings.split(path, "/")[-2], 5, 1), tf.int32)


class Clock(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.meter = Meter(38, args.batch)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


options = tf.data.Options()
options.experimental_optimization.inject_prefetch = False
data = tf.data.Dataset.list_files(f"{args.photos}/*/*.jpg", seed=0).map(decode, num_parallel_calls=args.parallel_calls or None)
data = data.cache() if args.cache else data
data = data.repeat().batch(args.batch).with_options(options)
data = data.prefetch(args.prefetch) if args.prefetch else data
model = tf.keras.Sequential([
    tf.keras.Input((64, 64, 3)), tf.keras.layers.Conv2D(16, 5, 4, activation="relu"), tf.keras.layers.Conv2D(32, 3, 2, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(), tf.keras.layers.Dense(10),
])  # fmt: skip
model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
clock = Clock()
model.fit(data, steps_per_epoch=args.steps, epochs=1, verbose=0, callbacks=[clock])
clock.meter.print()
