# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: writers of pen strokes, sequences of all lengths. tf.data cuts them out of one array and pads them; a GRU reads them."""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402

flags = argparse.ArgumentParser()
flags.add_argument("--strokes", type=Path, required=True)
flags.add_argument("--padding", choices=["max", "batch", "buckets"], default="max")
flags.add_argument("--cache", action="store_true")
flags.add_argument("--prefetch", type=int, default=2)
flags.add_argument("--log-every", type=int, default=40)
flags.add_argument("--units", type=int, default=48)
flags.add_argument("--batch-size", type=int, default=32)
flags.add_argument("--steps", type=int, default=110)
FLAGS = flags.parse_args()


def load():
    archive = np.load(FLAGS.strokes)
    return archive["points"], archive["lengths"].astype(np.int32), archive["writers"].astype(np.int32)


def input_fn(points, lengths, writers):
    starts = (np.cumsum(lengths) - lengths).astype(np.int32)
    flat = tf.constant(points)
    longest = int(lengths.max())

    def cut(start, length, writer):
        return tf.ensure_shape(flat[start : start + length], (None, 3)), writer

    data = tf.data.Dataset.from_tensor_slices((starts, lengths, writers)).map(cut, num_parallel_calls=2)
    if FLAGS.cache:
        data = data.cache()
    data = data.shuffle(len(lengths), seed=1).repeat()
    if FLAGS.padding == "buckets":
        boundaries = [60, 90, 130, 180, 260]
        data = data.bucket_by_sequence_length(
            lambda points, writer: tf.shape(points)[0], boundaries, [FLAGS.batch_size] * (len(boundaries) + 1), drop_remainder=True
        )
    else:
        shape = [longest if FLAGS.padding == "max" else None, 3]
        data = data.padded_batch(FLAGS.batch_size, padded_shapes=(shape, []), drop_remainder=True)
    return data.prefetch(FLAGS.prefetch)


class Writer(tf.keras.Model):
    def __init__(self, writers, units):
        super().__init__()
        self.conv = tf.keras.layers.Conv1D(units, 5, padding="same", activation="relu")
        self.gru = tf.keras.layers.GRU(units, return_sequences=True)
        self.logits = tf.keras.layers.Dense(writers)

    def call(self, points):
        mask = tf.cast(tf.reduce_any(tf.not_equal(points, 0), -1, keepdims=True), tf.float32)
        states = self.gru(self.conv(points)) * mask
        return self.logits(tf.reduce_sum(states, 1) / (tf.reduce_sum(mask, 1) + 1e-6))


def main():
    tf.random.set_seed(1)
    points, lengths, writers = load()
    model = Writer(int(writers.max()) + 1, FLAGS.units)
    optimizer = tf.keras.optimizers.Adam(2e-3)
    criterion = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model(tf.zeros((1, 8, 3)))
    optimizer.build(model.trainable_variables)

    @tf.function(reduce_retracing=True, input_signature=[tf.TensorSpec((None, None, 3)), tf.TensorSpec((None,), tf.int32)])
    def train_step(points, writers):
        with tf.GradientTape() as tape:
            loss = criterion(writers, model(points))
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 1.0)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    meter = Meter(10, FLAGS.batch_size)
    for step, (batch, labels) in enumerate(input_fn(points, lengths, writers).take(FLAGS.steps)):
        loss = train_step(batch, labels)
        if step % FLAGS.log_every == 0:
            tf.print("step", step, "loss", loss)
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
