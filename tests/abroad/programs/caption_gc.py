# SPDX-License-Identifier: Apache-2.0
"""Image captions: a transformer decoder on grid features. The annotations are the dictionaries that the JSON file gave, and the
garbage collector is called by hand, since memory once grew."""

import argparse
import gc
import random

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 10000


def annotations(count):
    """As json.load(open("captions_train.json"))["annotations"] gives them."""
    words = random.Random(0)
    return [
        {"id": number, "image_id": number // 5, "bbox": [words.random() for _ in range(4)], "tokens": [words.randrange(VOCABULARY) for _ in range(20)]}
        for number in range(count)
    ]  # fmt: skip


class Captions(Dataset):
    def __init__(self, count, steps, batch):
        self.annotations, self.count = annotations(count), steps * batch
        self.grids = torch.rand(64, 49, 512).half()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        annotation = self.annotations[index % len(self.annotations)]
        return self.grids[annotation["image_id"] % 64], torch.tensor(
            annotation["tokens"]
        )


class Captioner(nn.Module):
    def __init__(self, dim, layers, length):
        super().__init__()
        self.image, self.words = nn.Linear(512, dim), nn.Embedding(VOCABULARY, dim)
        self.positions = nn.Parameter(torch.zeros(1, length, dim))
        layer = nn.TransformerDecoderLayer(
            dim, dim // 64, 4 * dim, batch_first=True, activation="gelu"
        )
        self.decoder = nn.TransformerDecoder(layer, layers)
        self.head = nn.Linear(dim, VOCABULARY)
        self.register_buffer(
            "causal",
            nn.Transformer.generate_square_subsequent_mask(length),
            persistent=False,
        )

    def forward(self, grid, tokens):
        hidden = self.words(tokens) + self.positions
        return self.head(
            self.decoder(
                hidden, self.image(grid), tgt_mask=self.causal, tgt_is_causal=True
            )
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=110)
    parser.add_argument("--num-annotations", type=int, default=40000)
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--collect-every", type=int, default=1)
    parser.add_argument(
        "--freeze", action="store_true", help="gc.freeze() once everything is loaded"
    )
    parser.add_argument(
        "--loss-every",
        type=int,
        default=1,
        help="how often the mean loss is brought up to date",
    )
    args = parser.parse_args()
    torch.manual_seed(0)

    captions = Captions(args.num_annotations, args.steps, args.batch_size)
    loader = DataLoader(
        captions,
        args.batch_size,
        shuffle=True,
        num_workers=args.num_workers,
        pin_memory=True,
    )
    model = Captioner(args.dim, args.layers, 19).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    if args.freeze:
        gc.collect()
        gc.freeze()
    total_loss = 0.0
    for step, (grid, tokens) in enumerate(loader):
        grid, tokens = grid.cuda(non_blocking=True), tokens.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(grid, tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.loss_every == 0:
            total_loss += loss.item()
        if step % 20 == 0:
            print(
                f"step {step}/{len(loader)} mean loss {total_loss / (step // args.loss_every + 1):.3f}"
            )
        if step % args.collect_every == 0:
            gc.collect()
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
