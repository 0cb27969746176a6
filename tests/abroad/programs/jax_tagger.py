# SPDX-License-Identifier: Apache-2.0
"""JAX with optax: named entities in sentences of all lengths. Batches are as long as their longest sentence; the step is jitted."""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from meter import Meter

parser = argparse.ArgumentParser()
parser.add_argument("--conll", type=Path, required=True)
parser.add_argument(
    "--pad-multiple",
    type=int,
    default=1,
    help="round a batch's length up to a multiple of this",
)
parser.add_argument(
    "--sort-by-length", action="store_true", help="batch sentences of similar length"
)
parser.add_argument("--log-every", type=int, default=50)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--dim", type=int, default=64)
parser.add_argument("--warmup", type=int, default=60)
parser.add_argument("--steps", type=int, default=300)
args = parser.parse_args()


def read(path):
    vocabulary, tags, sentences = {"": 0}, {"": 0}, []
    for block in path.read_text().strip().split("\n\n"):
        pairs = [line.split("\t") for line in block.split("\n")]
        sentences.append(
            (
                [vocabulary.setdefault(word, len(vocabulary)) for word, _ in pairs],
                [tags.setdefault(tag, len(tags)) for _, tag in pairs],
            )
        )
    return sentences, len(vocabulary), len(tags)


def collate(batch):
    longest = max(len(words) for words, _ in batch)
    longest = -(-longest // args.pad_multiple) * args.pad_multiple
    padded = np.zeros((2, len(batch), longest), np.int32)
    for row, (words, tags) in enumerate(batch):
        padded[0, row, : len(words)], padded[1, row, : len(tags)] = words, tags
    return padded


def batches(sentences):
    random = np.random.default_rng(0)
    while True:
        order = random.permutation(len(sentences))
        if args.sort_by_length:
            order = sorted(order, key=lambda index: len(sentences[index][0]))
        starts = np.arange(0, len(order) - args.batch + 1, args.batch)
        for start in random.permutation(starts):
            yield collate(
                [sentences[index] for index in order[start : start + args.batch]]
            )


sentences, words, tags = read(args.conll)
keys = jax.random.split(jax.random.key(0), 7)
dim = args.dim
parameters = {
    "embed": jax.random.normal(keys[0], (words, dim)) * 0.1,
    "convolutions": [jax.random.normal(key, (5, dim, dim)) * 0.03 for key in keys[1:5]],
    "mix": jax.random.normal(keys[5], (dim, dim)) * 0.05,
    "head": jax.random.normal(keys[6], (dim, tags)) * 0.05,
}
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
state = optimizer.init(parameters)


def logits_of(parameters, tokens):
    x = parameters["embed"][tokens]
    for kernel in parameters["convolutions"]:
        y = jax.lax.conv_general_dilated(
            x, kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
        )
        x = x + jax.nn.gelu(y)
    weights = jax.nn.softmax(
        jnp.where(
            tokens[:, None, :] > 0, x @ parameters["mix"] @ x.transpose(0, 2, 1), -1e9
        )
    )
    return (x + weights @ x) @ parameters["head"]


def loss_of(parameters, tokens, wanted):
    losses = optax.softmax_cross_entropy_with_integer_labels(
        logits_of(parameters, tokens), wanted
    )
    return (losses * (wanted > 0)).sum() / (wanted > 0).sum()


@jax.jit
def update(parameters, state, tokens, wanted):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens, wanted)
    changes, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, changes), state, loss


meter = Meter(args.warmup, args.batch)
for step, (tokens, wanted) in zip(range(args.steps), batches(sentences)):
    parameters, state, loss = update(parameters, state, tokens, wanted)
    if step % args.log_every == 0:
        print(f"{step}: {float(loss):.4f}")
    meter.step()
loss.block_until_ready()
meter.print()
