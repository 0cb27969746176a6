# SPDX-License-Identifier: Apache-2.0
"""Keras on TensorFlow: birds by their song. tf.data reads WAV files, makes log-mel spectrograms of them, and masks bands and moments."""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402

RATE, SECONDS, BANDS = 16000, 2, 64


def read_wav(path, label):
    audio, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1, desired_samples=RATE * SECONDS)
    return tf.squeeze(audio, -1), label


def log_mel(audio, label):
    spectrum = tf.abs(tf.signal.stft(audio, frame_length=1024, frame_step=160, fft_length=1024))
    mel = tf.signal.linear_to_mel_weight_matrix(BANDS, 513, RATE, 150.0, 7500.0)
    return tf.math.log(tf.matmul(spectrum, mel) + 1e-5)[..., tf.newaxis], label


def spec_augment(image, label):
    frames = tf.shape(image)[0]
    start = tf.random.uniform((), 0, frames - 20, tf.int32)
    keep_time = (tf.range(frames) < start) | (tf.range(frames) >= start + 20)
    band = tf.random.uniform((), 0, BANDS - 8, tf.int32)
    keep_band = (tf.range(BANDS) < band) | (tf.range(BANDS) >= band + 8)
    return tf.where((keep_time[:, tf.newaxis] & keep_band)[..., tf.newaxis], image, tf.reduce_mean(image)), label


def make_dataset(args):
    paths = sorted(tf.io.gfile.glob(os.path.join(args.recordings, "*", "*.wav")))
    species = sorted({path.split(os.sep)[-2] for path in paths})
    labels = [species.index(path.split(os.sep)[-2]) for path in paths]
    parallel = tf.data.AUTOTUNE if args.parallel else None
    ds = tf.data.Dataset.from_tensor_slices((paths, labels)).map(read_wav, num_parallel_calls=parallel)
    if args.cache == "audio":
        ds = ds.cache()
    ds = ds.map(log_mel, num_parallel_calls=parallel)
    if args.cache == "spectrograms":
        ds = ds.cache()
    ds = ds.shuffle(len(paths), seed=3).repeat().map(spec_augment, num_parallel_calls=parallel)
    return ds.batch(args.batch_size).prefetch(args.prefetch), len(species)


def make_model(classes):
    inputs = keras.Input((None, BANDS, 1))
    x = keras.layers.Normalization(axis=None, mean=-4.0, variance=9.0)(inputs)
    for filters in (8, 16, 32):
        x = keras.layers.SeparableConv2D(filters, 3, strides=2, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.Activation("relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, keras.layers.Dense(classes)(keras.layers.Dropout(0.2)(x)))


class StepClock(keras.callbacks.Callback):
    def __init__(self, meter):
        super().__init__()
        self.meter = meter

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("recordings")
    parser.add_argument("--cache", choices=["nothing", "audio", "spectrograms"], default="audio")
    parser.add_argument("--parallel", action="store_true", help="num_parallel_calls=AUTOTUNE")
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    keras.utils.set_random_seed(3)
    dataset, classes = make_dataset(args)
    model = make_model(classes)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    meter = Meter(25, args.batch_size)
    model.fit(dataset, steps_per_epoch=20, epochs=args.epochs, verbose=2, callbacks=[StepClock(meter)])
    meter.print()


if __name__ == "__main__":
    main()
