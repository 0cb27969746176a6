# SPDX-License-Identifier: Apache-2.0
"""Hail in the next half hour from radar sweeps. The TFRecords are an archive's, a file an afternoon, in a bucket that is mounted."""

import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402
from tensorflow.keras import layers  # noqa: E402

p = argparse.ArgumentParser("hail nowcasting")
p.add_argument("archive", help="folder of sweeps-*.tfrecord")
p.add_argument("--cycle", type=int, default=1, help="files that are open at a time")
p.add_argument("--calls", type=int, default=1, help="num_parallel_calls of the parser")
p.add_argument("--prefetch", type=int, default=1)
p.add_argument("--read-buffer", type=int, default=256 << 10, help="bytes of TFRecordDataset's buffer")
p.add_argument("--cache", action="store_true")
p.add_argument("--bs", type=int, default=16)
p.add_argument("--steps", type=int, default=180)
p.add_argument("--filters", type=int, default=8)
cfg = p.parse_args()

SIDE, SWEEPS = 96, 6
tf.keras.utils.set_random_seed(2024)


def parse(raw):
    ex = tf.io.parse_single_example(
        raw, {"sweeps": tf.io.FixedLenFeature([], tf.string), "hail": tf.io.FixedLenFeature([], tf.int64)}
    )
    dbz = tf.reshape(tf.io.decode_raw(ex["sweeps"], tf.uint8), (SIDE, SIDE, SWEEPS))
    return tf.cast(dbz, tf.float32) / 2.0 - 32.0, tf.cast(ex["hail"], tf.float32)


def flip(dbz, hail):
    return tf.image.random_flip_left_right(dbz) / 20.0, hail


def get_dataset():
    files = tf.data.Dataset.list_files(os.path.join(cfg.archive, "sweeps-*.tfrecord"), shuffle=True, seed=5)
    ds = files.interleave(
        lambda name: tf.data.TFRecordDataset(name, buffer_size=cfg.read_buffer),
        cycle_length=cfg.cycle,
        num_parallel_calls=cfg.cycle if cfg.cycle > 1 else None,
    )
    ds = ds.map(parse, num_parallel_calls=cfg.calls)
    if cfg.cache:
        ds = ds.cache()
    ds = ds.shuffle(128, seed=5).repeat().map(flip, num_parallel_calls=cfg.calls)
    return ds.batch(cfg.bs, drop_remainder=True).prefetch(cfg.prefetch)


def get_model():
    inp = layers.Input((SIDE, SIDE, SWEEPS))
    x = layers.Conv2D(cfg.filters, 5, strides=2, padding="same", use_bias=False)(inp)
    for f in (cfg.filters, 2 * cfg.filters, 4 * cfg.filters):
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.SeparableConv2D(f, 3, strides=2, padding="same")(x)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return tf.keras.Model(inp, layers.Dense(1)(x))


class StepClock(tf.keras.callbacks.Callback):
    meter = Meter(30, cfg.bs)

    def on_train_batch_end(self, batch, logs=None):
        self.meter.step()


model = get_model()
model.compile(
    optimizer=tf.keras.optimizers.Adam(3e-4),
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.02),
    metrics=[tf.keras.metrics.AUC(curve="PR", from_logits=True, num_thresholds=50)],
)
history = model.fit(get_dataset(), steps_per_epoch=cfg.steps, epochs=1, verbose=0, callbacks=[StepClock()])
print({name: round(values[-1], 4) for name, values in history.history.items()})
StepClock.meter.print()
