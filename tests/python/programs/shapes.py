# SPDX-License-Identifier: Apache-2.0
"""Batches of every kind, each by a loader of its own; prints (samples, elements, batch's elements, longest) of those whose
padding can be known from sizes alone, in order. An object that says so when it is asked anything must not be asked."""

import json
import sys

import numpy
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader

LENGTHS = [3, 9, 4, 5]


class Touchy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        print(f"asked for {function}", file=sys.stderr)
        return super().__torch_function__(function, types, args, kwargs or {})


class TouchyList(list):
    def __len__(self):
        print("asked for its length", file=sys.stderr)
        return super().__len__()


class Counting(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        print(f"mode was shown {function.__name__}", file=sys.stderr)
        return function(*args, **(kwargs or {}))


def texts(samples):
    return pad_sequence(samples, batch_first=True)


def of_lists(samples):
    return texts([torch.tensor(sample) for sample in samples])


def batch(samples, collate_fn):
    return next(iter(DataLoader(samples, len(samples), collate_fn=collate_fn)))


def consumed(samples):
    """Takes the samples' own lists apart."""
    padded = of_lists([sample["tokens"] for sample in samples])
    for sample in samples:
        sample["tokens"].clear()
    return {"tokens": padded}


UNKNOWN_MASKS = 8


def with_masks():
    """Samples that the dataset itself padded to 12: all are of one size, and how long they were stands in their mask."""
    ids = torch.ones(4, 12, dtype=torch.int64)
    mask = (torch.arange(12) < torch.tensor(LENGTHS)[:, None]).long()
    pair = (torch.arange(12) >= torch.tensor(LENGTHS)[:, None]).long()  # the segments of two sentences
    samples = [{"ids": row} for row in ids]

    batch(samples, lambda made: {"ids": ids, "attention_mask": mask})
    batch(samples, lambda made: {"ids": ids, "attention_mask": mask.bool().flip(1)})
    batch(samples, lambda made: {"ids": ids, "segments": pair, "attention_mask": mask.int()})
    batch(list(ids), lambda made: (ids, mask.byte()))
    batch(list(ids), lambda made: [pair, mask, torch.tensor(LENGTHS)])
    batch(["text"] * 4, lambda made: {"ids": ids.float()[:, :, None].expand(4, 12, 3), "mask": mask})

    # No mask, or none that may be asked: the sizes alone are known.
    batch(samples, lambda made: {"ids": ids, "attention_mask": torch.ones_like(ids)})
    batch(samples, lambda made: {"ids": ids, "attention_mask": 2 * mask})
    batch(samples, lambda made: {"ids": ids, "attention_mask": mask.as_subclass(Touchy)})
    batch(samples, lambda made: {"ids": ids, "attention_mask": mask.T.contiguous().T})
    batch(samples, lambda made: {"ids": ids, "attention_mask": mask.to("meta")})
    batch(list(ids), lambda made: (ids, pair))
    batch(list(ids), lambda made: (ids, torch.eye(12, dtype=torch.int64)[:4]))
    batch(samples, lambda made: {"ids": ids, "attention_mask": mask.float()})
    batch(["text"] * 4, lambda made: (mask, torch.tensor(LENGTHS)))  # nothing of its size next to it


def main():
    tensors = [torch.ones(length) for length in LENGTHS]
    lists = [[1] * length for length in LENGTHS]
    images = [torch.ones(3, length, 7) for length in LENGTHS]

    batch(tensors, texts)
    batch([(tensor, 1) for tensor in tensors], lambda samples: (texts([sample[0] for sample in samples]), 1))
    batch([(1, tensor) for tensor in tensors], lambda samples: [1, texts([sample[1] for sample in samples])])
    batch(lists, of_lists)
    batch([{"label": 0, "tokens": list(tokens)} for tokens in lists], consumed)
    batch([numpy.ones(length) for length in LENGTHS], lambda samples: texts([torch.tensor(sample) for sample in samples]))
    batch(images, lambda samples: torch.zeros(4, 3, 9, 7))
    batch(tensors, lambda samples: (texts(samples), torch.tensor(LENGTHS)))

    # Not to be known: another field, packed, expanded, no sizes, one sample, an error, objects with a will of their own.
    batch(tensors, lambda samples: torch.cat(samples))
    batch(tensors, lambda samples: torch.zeros(4, 9, 100))
    batch([(tensor, 1) for tensor in tensors], lambda samples: (torch.tensor(LENGTHS), texts([sample[0] for sample in samples])))
    batch(["text", "texts"], lambda samples: torch.zeros(2, 9))
    batch([1.0, 2.0], lambda samples: torch.zeros(2, 9))
    batch([[]] * 4, lambda samples: torch.zeros(4, 9))
    batch(tensors[:1], texts)
    batch([tensors[0], None], lambda samples: torch.zeros(2, 3))
    batch([tensor.as_subclass(Touchy) for tensor in tensors], lambda samples: torch.zeros(4, 9))
    batch([TouchyList(tokens) for tokens in lists], lambda samples: torch.zeros(4, 9))
    batch(tensors, lambda samples: texts(samples).as_subclass(Touchy))
    with Counting():
        loader = iter(DataLoader(tensors, 4, collate_fn=lambda samples: "made"))
        print("in the mode", file=sys.stderr)
        next(loader)
        print("out of it", file=sys.stderr)
    try:
        batch(tensors, lambda samples: 1 / 0)
    except ZeroDivisionError:
        pass

    with_masks()
    text = [4, sum(LENGTHS), 4 * 9, 9]
    by_mask = [4, sum(LENGTHS), 4 * 12, 9]
    print(json.dumps([text] * 6 + [[4, 21 * sum(LENGTHS), 21 * 4 * 9, 21 * 9], text] + [by_mask] * 6 + [[4, 48, 48, 12]] * UNKNOWN_MASKS))


if __name__ == "__main__":
    main()
