# SPDX-License-Identifier: Apache-2.0
"""Trains on texts of different lengths, padded to one length in each batch. What a step costs grows with the size of the batch."""

import argparse
import json

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from training import Model


class Texts(Dataset):
    """One text in eight is long."""

    def __init__(self, options):
        self.options = options
        random = torch.Generator().manual_seed(1)
        short = torch.randint(20, 60, (options.batches * options.batch_size,), generator=random)
        self.lengths = torch.where(torch.arange(len(short)) % 8 == 3, 200 + short, short).tolist()
        if options.equal:
            self.lengths = [options.equal] * len(short)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        tokens = [index % 1000] * self.lengths[index]
        return {"label": index % 2, "tokens": tokens} if self.options.as_dict else (torch.tensor(tokens), index % 2)


class ByLength:
    """Batches of texts of similar length."""

    def __init__(self, lengths, batch_size):
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


class Pad:
    def __init__(self, length):
        self.length = length

    def __call__(self, samples):
        texts = [torch.tensor(sample["tokens"]) if isinstance(sample, dict) else sample[0] for sample in samples]
        padded = pad_sequence(texts, batch_first=True)
        if self.length:
            padded = torch.nn.functional.pad(padded, (0, self.length - padded.shape[1]))
        lengths = torch.tensor([len(text) for text in texts])
        return {"tokens": padded, "lengths": lengths} if isinstance(samples[0], dict) else (padded, lengths)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--equal", type=int, default=0, help="length of every text")
    parser.add_argument("--pad-to", type=int, default=0, help="length of every batch; 0: its longest text's")
    parser.add_argument("--by-length", action="store_true")
    parser.add_argument("--as-dict", action="store_true", help="samples and batches are dicts")
    parser.add_argument("--element-us", type=float, default=40, help="what an element costs a step")
    options = parser.parse_args()

    texts = Texts(options)
    batches = {"batch_sampler": ByLength(texts.lengths, options.batch_size)} if options.by_length else {"batch_size": options.batch_size}
    loader = DataLoader(texts, num_workers=options.workers, collate_fn=Pad(options.pad_to), **batches)
    model = Model(0)
    elements = padded = 0
    for batch in loader:
        tokens, lengths = batch.values() if options.as_dict else batch
        model.train_ms = tokens.numel() * options.element_us / 1e3
        model.step(tokens)
        elements += int(lengths.sum())
        padded += tokens.numel()
    print(json.dumps({"elements": elements, "padded": padded}))
    model.print_times()


if __name__ == "__main__":
    main()
