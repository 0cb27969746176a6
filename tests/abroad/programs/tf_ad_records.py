# SPDX-License-Identifier: Apache-2.0
"""Wide and deep on TensorFlow: TFRecords of impressions, parsed and hashed in tf.data; own loop with tf.function, one epoch."""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--records", required=True)
parser.add_argument(
    "--vectorized", action="store_true", help="batch first, then parse the batch"
)
parser.add_argument("--parallel-calls", type=int, default=0)
parser.add_argument("--prefetch", type=int, default=0)
parser.add_argument("--cache", action="store_true")
parser.add_argument("--shuffle-buffer", type=int, default=4096)
parser.add_argument("--batch", type=int, default=512)
parser.add_argument("--hidden", type=int, default=384)
parser.add_argument("--steps", type=int, default=150)
args = parser.parse_args()
tf.random.set_seed(0)

BUCKETS = 2000
NUMBERS, CATEGORIES = (
    [f"i{number}" for number in range(13)],
    [f"c{number}" for number in range(26)],
)
SPEC = {name: tf.io.FixedLenFeature([], tf.float32) for name in NUMBERS}
SPEC |= {name: tf.io.FixedLenFeature([], tf.string) for name in CATEGORIES}
SPEC["click"] = tf.io.FixedLenFeature([], tf.int64)


def features_of(parsed):
    """The same code for one example and for a batch of them."""
    dense = tf.math.log1p(tf.stack([parsed[name] for name in NUMBERS], -1))
    hashed = tf.strings.to_hash_bucket_fast(
        tf.stack([parsed[name] for name in CATEGORIES], -1), BUCKETS
    )
    return (
        dense,
        hashed + tf.range(26, dtype=tf.int64) * BUCKETS,
        tf.cast(parsed["click"], tf.float32),
    )


def one(record):
    return features_of(tf.io.parse_single_example(record, SPEC))


def several(records):
    return features_of(tf.io.parse_example(records, SPEC))


def pipeline():
    calls = args.parallel_calls or None
    data = tf.data.TFRecordDataset(args.records).shuffle(args.shuffle_buffer, seed=0)
    if args.vectorized:
        data = data.batch(args.batch, drop_remainder=True).map(
            several, num_parallel_calls=calls
        )
    else:
        data = data.map(one, num_parallel_calls=calls)
        data = data.cache() if args.cache else data
        data = data.batch(args.batch, drop_remainder=True)
    return data.prefetch(args.prefetch) if args.prefetch else data


class WideAndDeep(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.wide, self.embed = (
            tf.keras.layers.Embedding(26 * BUCKETS, 1),
            tf.keras.layers.Embedding(26 * BUCKETS, 8),
        )
        self.deep = tf.keras.Sequential(
            [
                *(
                    tf.keras.layers.Dense(args.hidden, activation="relu")
                    for _ in range(3)
                ),
                tf.keras.layers.Dense(1),
            ]
        )

    def call(self, dense, categories):
        vectors = tf.reshape(self.embed(categories), (-1, 26 * 8))
        return tf.squeeze(
            self.deep(tf.concat([dense, vectors], 1))
            + tf.reduce_sum(self.wide(categories), 1),
            1,
        )


model = WideAndDeep()
model(tf.zeros((1, 13)), tf.zeros((1, 26), tf.int64))  # makes the variables
optimizer = tf.keras.optimizers.SGD(0.05)


@tf.function
def train_step(dense, categories, click):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(click, model(dense, categories))
        )
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


meter = Meter(20, args.batch)
for step, (dense, categories, click) in enumerate(pipeline().take(args.steps)):
    loss = train_step(dense, categories, click)
    if step % 50 == 0:
        print(f"step {step}: {float(loss):.4f}")
    meter.step()
meter.print()
