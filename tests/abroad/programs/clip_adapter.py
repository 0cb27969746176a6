# SPDX-License-Identifier: Apache-2.0
"""An adapter on frozen image features, trained against the text embeddings of 22 thousand class names, which a file holds."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, count, size, classes):
        self.pool = torch.randint(0, 255, (256, 3, size, size), dtype=torch.uint8)
        self.count, self.classes = count, classes

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.pool[index % 256], index * 31 % self.classes


class VisionTower(nn.Module):
    def __init__(self, size, patch, dim, depth):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.position = nn.Parameter(torch.zeros(1, (size // patch) ** 2, dim))
        layer = nn.TransformerEncoderLayer(
            dim,
            dim // 64,
            4 * dim,
            dropout=0,
            batch_first=True,
            norm_first=True,
            activation="gelu",
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, images):
        return self.encoder(
            self.patches(images).flatten(2).transpose(1, 2) + self.position
        ).mean(1)


class Classifier(nn.Module):
    def __init__(self, tower, text, dim, text_is_buffer):
        super().__init__()
        self.tower = tower.eval().requires_grad_(False)
        self.adapter = nn.Sequential(
            nn.Linear(dim, dim // 4), nn.ReLU(), nn.Linear(dim // 4, dim)
        )
        self.scale = nn.Parameter(torch.tensor(4.6))
        if text_is_buffer:
            self.register_buffer("text", text)
        else:
            self.text = text

    def forward(self, images):
        with torch.no_grad():
            features = self.tower(images)
        features = F.normalize(0.2 * self.adapter(features) + 0.8 * features, dim=-1)
        text = self.text.to(features.device, non_blocking=True)
        return self.scale.exp() * features @ text.t()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--image-size", type=int, default=112)
    parser.add_argument("--classes", type=int, default=21841)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--text-as-buffer",
        action="store_true",
        help="the embeddings move with the model",
    )
    parser.add_argument("--pin-text", action="store_true")
    parser.add_argument("--log-every", type=int, default=100)
    args = parser.parse_args()
    torch.manual_seed(0)

    text = F.normalize(
        torch.randn(args.classes, args.dim), dim=-1
    )  # torch.load("imagenet21k_prompts.pt", map_location="cpu")
    if args.pin_text:
        text = text.pin_memory()
    model = Classifier(
        VisionTower(args.image_size, 16, args.dim, args.depth),
        text,
        args.dim,
        args.text_as_buffer,
    ).cuda()
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=1e-3, fused=True
    )
    photos = Photos(args.steps * args.batch_size, args.image_size, args.classes)
    loader = DataLoader(
        photos,
        args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        prefetch_factor=4 if args.workers else None,
    )
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step, (images, labels) in enumerate(loader):
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(images.float().div_(255))
        loss = F.cross_entropy(logits.float(), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            print(f"[{step}/{len(loader)}] loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
