# SPDX-License-Identifier: Apache-2.0
"""Copies batches of a DataLoader to the GPU in the ways that people write, and prints after which of them the copy was still
under way: {"to": [true, ...], ...}. The link is so slow that no copy ends before the next line runs."""

import json
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Pages(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((1 << 19,), float(index)), index


def main():
    under_way = {}

    def copied(name, copy):
        torch.cuda.synchronize()
        copy()
        under_way.setdefault(name, []).append(not torch.cuda.current_stream().query())
        torch.cuda.synchronize()

    own = torch.ones(1 << 20).pin_memory()
    for x, labels in DataLoader(Pages(), batch_size=2, pin_memory="--pin" in sys.argv):
        copied("to", lambda x=x: x.to("cuda"))
        copied("cuda", lambda x=x: x.cuda())
        copied("cast", lambda x=x: x.to("cuda", torch.float64))
        copied("asked", lambda x=x: x.to("cuda", non_blocking=True))
        copied("refused", lambda x=x: x.to("cuda", non_blocking=False))
        copied("slice", lambda x=x: x[:1].to("cuda"))
        copied("own buffer", lambda: own.to("cuda"))
        assert labels.to(torch.float32).device.type == "cpu"
    print(json.dumps(under_way))


if __name__ == "__main__":
    main()
