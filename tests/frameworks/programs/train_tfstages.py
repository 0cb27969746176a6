# SPDX-License-Identifier: Apache-2.0
"""tf.data with a stage that is slow, in Python that computes: a map or a generator."""

import sys
import time

import tensorflow as tf

COUNT, BATCH = 320, 8


def make(index):
    until = time.thread_time() + 0.004
    while time.thread_time() < until:
        pass
    return tf.fill([4], tf.cast(index, tf.float32)), tf.ones([1])


def fetch(index):
    x, y = tf.py_function(make, [index], [tf.float32, tf.float32])
    return tf.ensure_shape(x, [4]), tf.ensure_shape(y, [1])


def generate():
    for index in range(COUNT):
        x, y = make(index)
        yield x.numpy(), y.numpy()


numbers = tf.data.Dataset.range(COUNT)
if sys.argv[1] == "map":
    samples = numbers.map(fetch)  # map
elif sys.argv[1] == "parallel":
    samples = numbers.map(fetch, num_parallel_calls=tf.data.AUTOTUNE)  # parallel
elif sys.argv[1] == "interleave":
    samples = tf.data.Dataset.range(4).interleave(lambda part: numbers.shard(4, part).map(fetch))  # interleave
else:
    signature = (tf.TensorSpec([4]), tf.TensorSpec([1]))
    samples = tf.data.Dataset.from_generator(generate, output_signature=signature)  # generator
weight = tf.Variable(tf.zeros([4, 1]))


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight - y) ** 2)
    weight.assign_sub(0.0001 * tape.gradient(loss, weight))
    return loss


for x, y in samples.batch(BATCH).prefetch(1):
    step(x, y)
