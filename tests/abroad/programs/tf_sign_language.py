# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: words of a sign language from the key points of both hands. What SciPy did in the notebook (fill gaps, smooth,
bring to one length) runs in a numpy_function of the tf.data pipeline; turning and scaling are TensorFlow's."""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402
from scipy.ndimage import gaussian_filter1d  # noqa: E402

POINTS, FRAMES, WORDS = 42, 64, 40
rng = np.random.default_rng(17)


def make_clips(count):
    """Frames x points x (x, y), NaN where the detector did not see a point; 40 to 140 frames at 25 a second."""
    clips, words = [], rng.integers(0, WORDS, count)
    for word in words:
        t = np.linspace(0, 1, rng.integers(40, 140))[:, None, None]
        phases = np.random.default_rng(word).uniform(0, 6, (1, POINTS, 2))
        clip = np.sin(2 * np.pi * t * (1 + phases / 3) + phases) + 0.05 * rng.standard_normal((len(t), POINTS, 2))
        clip[rng.random((len(t), POINTS)) < 0.08] = np.nan
        clips.append(clip.astype(np.float32))
    return clips, words.astype(np.int64)


def prepare_columns(clip):
    """Each coordinate of each point is a series by itself."""
    series = clip.reshape(len(clip), -1)
    before, after = np.arange(len(series)), np.linspace(0, len(series) - 1, FRAMES)
    prepared = np.empty((FRAMES, series.shape[1]), np.float32)
    for column in range(series.shape[1]):
        seen = ~np.isnan(series[:, column])
        filled = np.interp(before, before[seen], series[seen, column])
        prepared[:, column] = np.interp(after, before, gaussian_filter1d(filled, 1.2))
    return prepared


def prepare_matrix(clip):
    """The same for all series at once: indices of the last and the next frame in which a point was seen."""
    series = clip.reshape(len(clip), -1)
    before = np.arange(len(series))[:, None]
    seen = ~np.isnan(series)
    last = np.maximum.accumulate(np.where(seen, before, -1), 0)
    following = np.minimum.accumulate(np.where(seen, before, len(series))[::-1], 0)[::-1]
    last, following = np.where(last < 0, following, last), np.where(following == len(series), last, following)
    share = (before - last) / np.maximum(following - last, 1)
    a, b = (np.take_along_axis(series, rows, 0) for rows in (last, following))
    smooth = gaussian_filter1d(a + share * (b - a), 1.2, axis=0)
    at = np.linspace(0, len(series) - 1, FRAMES)
    low = np.minimum(at.astype(int), len(series) - 2)
    return (smooth[low] + (at - low)[:, None] * (smooth[low + 1] - smooth[low])).astype(np.float32)


def augment(x, word):
    points = tf.reshape(x, (FRAMES, POINTS, 2))
    angle, scale = tf.random.uniform((), -0.2, 0.2), tf.random.uniform((), 0.85, 1.15)
    turn = scale * tf.stack([[tf.cos(angle), -tf.sin(angle)], [tf.sin(angle), tf.cos(angle)]])
    points = tf.matmul(points - tf.reduce_mean(points, (0, 1), keepdims=True), turn)
    return tf.reshape(points + tf.random.normal((1, POINTS, 2), stddev=0.02), (FRAMES, 2 * POINTS)), word


def make_dataset(args, clips, words):
    prepare = prepare_matrix if args.prepare == "matrix" else prepare_columns

    def prepared(number):
        x, word = tf.numpy_function(lambda i: (prepare(clips[i]), words[i]), [number], (tf.float32, tf.int64))
        return tf.ensure_shape(x, (FRAMES, 2 * POINTS)), tf.ensure_shape(word, ())

    calls = tf.data.AUTOTUNE if args.parallel_calls < 0 else args.parallel_calls
    ds = tf.data.Dataset.range(len(clips))
    if args.cache:
        ds = ds.map(prepared, num_parallel_calls=calls).cache().shuffle(len(clips), seed=17)
    else:
        ds = ds.shuffle(len(clips), seed=17).map(prepared, num_parallel_calls=calls)
    return ds.map(augment, num_parallel_calls=calls).batch(args.batch_size, drop_remainder=True).prefetch(args.prefetch)


def make_model(width, depth):
    inputs = keras.Input((FRAMES, 2 * POINTS))
    x = keras.layers.Dense(width)(inputs)
    for number in range(depth):
        y = keras.layers.LayerNormalization()(x)
        y = keras.layers.Conv1D(2 * width, 5, padding="same", dilation_rate=2**number, activation="relu")(y)
        x = x + keras.layers.Dense(width)(keras.layers.Dropout(0.2)(y))
    return keras.Model(inputs, keras.layers.Dense(WORDS)(keras.layers.GlobalAveragePooling1D()(x)))


class Ticks(keras.callbacks.Callback):
    def __init__(self, meter):
        super().__init__()
        self.meter = meter

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--clips", type=int, default=384)
    parser.add_argument("--prepare", choices=["columns", "matrix"], default="columns")
    parser.add_argument("--cache", action="store_true", help="keep what is prepared, in memory")
    parser.add_argument("--parallel-calls", type=int, default=-1, help="-1: TensorFlow decides")
    parser.add_argument("--prefetch", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=3)
    args = parser.parse_args()
    keras.utils.set_random_seed(17)
    clips, words = make_clips(args.clips)
    model = make_model(args.width, args.depth)
    model.compile(keras.optimizers.AdamW(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    meter = Meter(args.clips // args.batch_size, args.batch_size)  # the first epoch compiles, and fills the cache if there is one
    model.fit(make_dataset(args, clips, words), epochs=args.epochs, verbose=2, callbacks=[Ticks(meter)])
    meter.print()
