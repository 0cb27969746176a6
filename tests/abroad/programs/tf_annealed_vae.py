# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: a convolutional VAE of spectrogram patches in a custom training loop; the weight of the KL term rises during training."""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from meter import Meter  # noqa: E402

layers = tf.keras.layers

p = argparse.ArgumentParser()
p.add_argument("--latent", type=int, default=16)
p.add_argument("--filters", type=int, default=16)
p.add_argument("--batch_size", type=int, default=64)
p.add_argument("--steps", type=int, default=36)
p.add_argument("--prefetch", type=int, default=2)
p.add_argument("--parallel_calls", type=int, default=1)
p.add_argument("--cache", action="store_true")
p.add_argument("--beta", choices=["float", "tensor", "stairs"], default="float")
p.add_argument("--log_every", type=int, default=10)
FLAGS = p.parse_args()
tf.keras.utils.set_random_seed(11)


def patches():
    """48 x 48 patches of partials with vibrato, in decibels."""
    rng = np.random.default_rng(11)
    t, f = np.arange(48, dtype=np.float32)[None, None], np.arange(48, dtype=np.float32)[None, :, None]
    pitch, depth = rng.uniform(4, 12, (2000, 1, 1)).astype(np.float32), rng.uniform(0, 2, (2000, 1, 1)).astype(np.float32)
    lines = np.cos((f - depth * np.sin(t / 5)) / pitch * 2 * np.pi)
    return (lines * 40 - 40).astype(np.float16)


def normalize(patch):
    patch = tf.cast(patch, tf.float32)
    noise = tf.random.normal(tf.shape(patch), stddev=2.0)
    return tf.clip_by_value((patch + noise + 80) / 80, 0, 1)[..., None]


def make_dataset():
    data = tf.data.Dataset.from_tensor_slices(patches())
    if FLAGS.cache:
        data = data.cache()
    data = data.shuffle(2000, seed=1).repeat().map(normalize, num_parallel_calls=FLAGS.parallel_calls)
    return data.batch(FLAGS.batch_size, drop_remainder=True).prefetch(FLAGS.prefetch)


def build(filters, latent):
    encoder = tf.keras.Sequential(
        [
            tf.keras.Input((48, 48, 1)),
            layers.Conv2D(filters, 3, 2, "same", activation="relu"),
            layers.Conv2D(2 * filters, 3, 2, "same", activation="relu"),
            layers.Conv2D(4 * filters, 3, 2, "same", activation="relu"),
            layers.Flatten(),
            layers.Dense(2 * latent),
        ]
    )
    decoder = tf.keras.Sequential(
        [
            tf.keras.Input((latent,)),
            layers.Dense(6 * 6 * 4 * filters, activation="relu"),
            layers.Reshape((6, 6, 4 * filters)),
            layers.Conv2DTranspose(2 * filters, 3, 2, "same", activation="relu"),
            layers.Conv2DTranspose(filters, 3, 2, "same", activation="relu"),
            layers.Conv2DTranspose(1, 3, 2, "same"),
        ]
    )
    return encoder, decoder


encoder, decoder = build(FLAGS.filters, FLAGS.latent)
variables = encoder.trainable_variables + decoder.trainable_variables
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(variables)


@tf.function
def train_step(x, beta):
    with tf.GradientTape() as tape:
        mean, log_var = tf.split(encoder(x, training=True), 2, axis=1)
        z = mean + tf.random.normal(tf.shape(mean)) * tf.exp(0.5 * log_var)
        logits = decoder(z, training=True)
        likelihood = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits)
        reconstruction = tf.reduce_mean(tf.reduce_sum(likelihood, axis=[1, 2, 3]))
        kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + log_var - mean**2 - tf.exp(log_var), axis=1))
        loss = reconstruction + beta * kl
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return reconstruction, kl


def beta_at(step):
    beta = min(1.0, step / FLAGS.steps)
    if FLAGS.beta == "stairs":
        return round(beta * 4) / 4
    return tf.constant(beta, tf.float32) if FLAGS.beta == "tensor" else beta


meter = Meter(4, FLAGS.batch_size)
for step, x in enumerate(make_dataset().take(FLAGS.steps)):
    reconstruction, kl = train_step(x, beta_at(step))
    if step % FLAGS.log_every == 0:
        tf.print("step", step, "reconstruction", reconstruction, "kl", kl)
    meter.step()
meter.print()
