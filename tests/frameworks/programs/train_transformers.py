# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Trainer. Timed around each next() of the DataLoader below it."""

import sys
import tempfile

from common import Waits, finish, work
from slow_data import BATCH, Slow, model, time_loaders, torch
from transformers import Trainer, TrainingArguments


class Named(Slow):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return {"x": x, "labels": y}


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model()

    def forward(self, x, labels):
        work(3)
        return {"loss": torch.nn.functional.mse_loss(self.model(x), labels)}


waits = Waits()
time_loaders(waits)
arguments = TrainingArguments(  # loader
    tempfile.mkdtemp(), num_train_epochs=2, per_device_train_batch_size=BATCH, dataloader_num_workers=int(sys.argv[1]),
    use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no",
)  # fmt: skip
trainer = Trainer(Network(), arguments, train_dataset=Named())
trainer.train()
finish(waits, trainer.state.global_step)
