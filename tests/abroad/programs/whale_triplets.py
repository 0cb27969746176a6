# SPDX-License-Identifier: Apache-2.0
"""Lightning: which whale is this fluke? An embedding by batch-hard triplet loss; a batch has P animals with K photos of each."""

import argparse
import logging
import warnings

import lightning as L
import torch
from meter import Meter
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

warnings.filterwarnings("ignore", module="lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Flukes(Dataset):
    def __init__(self, animals, photos, size):
        generator = torch.Generator().manual_seed(5)
        shapes = torch.randint(60, 200, (animals, 1, 1, size, size), generator=generator)
        self.images = (shapes + torch.randint(-50, 50, (animals, photos, 1, size, size), generator=generator)).byte().flatten(0, 1)
        self.animal = torch.arange(animals).repeat_interleave(photos)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index].float() / 255, self.animal[index]


class PKSampler(Sampler):
    def __init__(self, animals, photos, p, k, batches):
        self.animals, self.photos, self.p, self.k, self.batches = animals, photos, p, k, batches

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            chosen = torch.randperm(self.animals)[: self.p].tolist()
            yield [animal * self.photos + photo for animal in chosen for photo in torch.randperm(self.photos)[: self.k].tolist()]


def batch_hard_loop(embeddings, animals, margin):
    """For each anchor the farthest photo of the same animal and the nearest of another."""
    losses = []
    for i in range(len(embeddings)):
        hardest_positive, hardest_negative = None, None
        for j in range(len(embeddings)):
            if i == j:
                continue
            distance = (embeddings[i] - embeddings[j]).pow(2).sum()
            if animals[i] == animals[j]:
                if hardest_positive is None or distance > hardest_positive:
                    hardest_positive = distance
            elif hardest_negative is None or distance < hardest_negative:
                hardest_negative = distance
        losses.append(F.relu(hardest_positive.sqrt() - hardest_negative.sqrt() + margin))
    return torch.stack(losses).mean()


def batch_hard_matrix(embeddings, animals, margin):
    distances = torch.cdist(embeddings, embeddings)
    same = animals[:, None] == animals
    itself = torch.eye(len(animals), dtype=torch.bool)
    positive = distances.masked_fill(~same | itself, 0).amax(1)
    negative = distances.masked_fill(same, float("inf")).amin(1)
    return F.relu(positive - negative + margin).mean()


class Embedder(L.LightningModule):
    def __init__(self, args, meter):
        super().__init__()
        width = args.width
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 5, 2, 2), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.BatchNorm2d(4 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 64),
        )  # fmt: skip
        self.mine = batch_hard_matrix if args.mining == "matrix" else batch_hard_loop
        self.margin, self.meter = args.margin, meter

    def training_step(self, batch, batch_idx):
        images, animals = batch
        loss = self.mine(F.normalize(self.net(images)), animals, self.margin)
        self.log("train/triplet", loss)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.meter.step()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mining", choices=["loop", "matrix"], default="loop")
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--log-every-n-steps", type=int, default=50)
    parser.add_argument("--margin", type=float, default=0.3)
    parser.add_argument("-p", type=int, default=8)
    parser.add_argument("-k", type=int, default=4)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--batches", type=int, default=110)
    args = parser.parse_args()
    L.seed_everything(5, verbose=False)
    flukes = Flukes(animals=120, photos=8, size=96)
    loader = DataLoader(flukes, batch_sampler=PKSampler(120, 8, args.p, args.k, args.batches), num_workers=args.num_workers)
    meter = Meter(10, args.p * args.k)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, log_every_n_steps=args.log_every_n_steps, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Embedder(args, meter), loader)
    meter.print()


if __name__ == "__main__":
    main()
