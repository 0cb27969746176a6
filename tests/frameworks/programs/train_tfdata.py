# SPDX-License-Identifier: Apache-2.0
"""TensorFlow without Keras: an eager loop over a tf.data pipeline, the step a tf.function. With "graph" the whole epoch is
one call of a tf.function that asks the iterator itself."""

import sys
import time

import tensorflow as tf
from common import BATCH, SAMPLE_MS, SAMPLES, Waits, finish, work

waits, steps, ended = Waits(), 0, None


def slowly(index):
    time.sleep(SAMPLE_MS / 1e3)
    return tf.fill([4], tf.cast(index, tf.float32)), tf.ones([1])


def fetch(index):
    x, y = tf.py_function(slowly, [index], [tf.float32, tf.float32])
    return tf.ensure_shape(x, [4]), tf.ensure_shape(y, [1])


dataset = tf.data.Dataset.range(SAMPLES).map(fetch).batch(BATCH)
weight = tf.Variable(tf.zeros([4, 1]))


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight - y) ** 2)
    weight.assign_sub(0.01 * tape.gradient(loss, weight))
    return loss


def note(has_batch):
    """From within the graph: a batch has come, or the step is done and the next batch is asked for."""
    global ended
    if has_batch and ended:
        waits.note(ended)
    if has_batch:
        work(3)
    ended = None if has_batch else time.monotonic_ns()
    return has_batch


@tf.function
def epoch_in_graph(batches):
    for _ in tf.range(SAMPLES // BATCH):
        x, y = next(batches)
        tf.py_function(note, [1], tf.int32)
        step(x, y)
        tf.py_function(note, [0], tf.int32)


if sys.argv[1:] == ["graph"]:
    for epoch in range(2):
        ended = None
        epoch_in_graph(iter(dataset))  # loader
    steps = 2 * SAMPLES // BATCH
else:
    for epoch in range(2):
        for x, y in waits.around(dataset):
            work(3)
            step(x, y)
            steps += 1
finish(waits, steps)
