# SPDX-License-Identifier: Apache-2.0
"""timm: a loader from timm.data.create_loader in the script's own loop."""

import sys
import time

import no_vision_kernels  # noqa: F401
from common import BATCH, SAMPLE_MS, SAMPLES, Waits, finish, work
from PIL import Image
from slow_data import torch
from timm.data import create_loader


class Pictures(torch.utils.data.Dataset):
    transform = None

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        time.sleep(SAMPLE_MS / 1e3)
        return self.transform(Image.new("RGB", (16, 16))), index % 4


loader = create_loader(  # loader
    Pictures(), input_size=(3, 16, 16), batch_size=BATCH, is_training=True, num_workers=int(sys.argv[1]),
    use_prefetcher=False, persistent_workers=False, pin_memory=False,
)  # fmt: skip
network = torch.nn.Linear(3 * 16 * 16, 4)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
waits, steps = Waits(), 0
for epoch in range(2):
    for x, y in waits.around(loader):
        work(3)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x.flatten(1)), y).backward()
        optimizer.step()
        steps += 1
finish(waits, steps)
