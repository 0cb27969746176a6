# SPDX-License-Identifier: Apache-2.0
"""float_arrays.py --workers 2 --batches 60: samples are float arrays that are filtered, scaled and cropped, as of pictures or
sound: each step of it is a new array. Prints what the kernel counted of the workers, a batch: {"faults": ..., "system_ms": ...,
"cpu_ms": ...}, and the steps' times."""

import argparse
import json
import resource

import numpy
import torch
from training import Model

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--batches", type=int, default=60)
arguments = parser.parse_args()
BATCH = 4


class Arrays(torch.utils.data.Dataset):
    def __init__(self):
        self.raw = numpy.random.default_rng(0).random((3, 320, 320), dtype=numpy.float32)

    def __len__(self):
        return arguments.batches * BATCH

    def __getitem__(self, index):
        array = self.raw
        for shift in range(1, 6):
            array = array * 0.9 + numpy.roll(array, shift + index % 3, axis=2) * 0.1
        return torch.from_numpy(numpy.clip(array, 0, 1)[:, 32:288, 32:288].copy())


if __name__ == "__main__":
    model = Model(0)
    loader = torch.utils.data.DataLoader(Arrays(), batch_size=BATCH, num_workers=arguments.workers)
    for batch in loader:
        model.step(batch)
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    per_batch = {"faults": workers.ru_minflt, "system_ms": workers.ru_stime * 1e3, "cpu_ms": (workers.ru_utime + workers.ru_stime) * 1e3}
    print(json.dumps({name: value / arguments.batches for name, value in per_batch.items()}))
    model.print_times()
