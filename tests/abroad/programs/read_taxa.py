# SPDX-License-Identifier: Apache-2.0
"""Which species a short read of a metagenome comes from: hashed k-mers, an embedding bag and a small network. Goes on from its last checkpoint."""

import argparse
import os
import tempfile
from pathlib import Path

import torch
from meter import Meter
from torch import nn
from torch.nn import functional as F


def make_reads(species, genome, reads, length, error=0.01, seed=4):
    """Random genomes, and reads from anywhere in them with a few wrong bases. Bases are 0 to 3."""
    torch.manual_seed(seed)
    genomes = torch.randint(4, (species, genome))
    origin = torch.randint(species, (reads,))
    start = torch.randint(genome - length, (reads, 1))
    bases = genomes[origin[:, None], start + torch.arange(length)]
    wrong = torch.rand(reads, length) < error
    return torch.where(wrong, torch.randint(4, (reads, length)), bases).to(torch.uint8), origin


def kmers(bases, k, buckets):
    """Hashed numbers of every second k-mer of each read."""
    count = (bases.shape[1] - k) // 2 + 1
    number = torch.zeros(len(bases), count, dtype=torch.long)
    for place in range(k):
        number = number * 4 + bases[:, place : place + 2 * count - 1 : 2]
    return number * 2654435761 % 4294967291 % buckets


class Taxa(nn.Module):
    def __init__(self, buckets, width, hidden, species):
        super().__init__()
        self.bag = nn.EmbeddingBag(buckets, width, mode="mean")
        self.net = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, species))

    def forward(self, ids):
        return self.net(self.bag(ids))


class Checkpoints:
    """last.pt in a folder; a crash while writing leaves the one before."""

    def __init__(self, folder, contents, sync):
        self.path, self.contents, self.sync = Path(folder) / "last.pt", contents, sync

    def save(self, step, model, optimizer):
        state = {"step": step, "model": model.state_dict()}
        if self.contents == "all":
            state["optimizer"] = optimizer.state_dict()
        part = self.path.with_suffix(".part")
        with open(part, "wb") as file:
            torch.save(state, file)
            if self.sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, self.path)

    def load(self, model, optimizer):
        if not self.path.exists():
            return 0
        state = torch.load(self.path)
        model.load_state_dict(state["model"])
        if "optimizer" in state:
            optimizer.load_state_dict(state["optimizer"])
        return state["step"]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--folder", help="for checkpoints; a temporary one if not given")
    ap.add_argument("--species", type=int, default=400)
    ap.add_argument("--reads", type=int, default=30_000)
    ap.add_argument("--length", type=int, default=150)
    ap.add_argument("--k", type=int, default=12)
    ap.add_argument("--buckets", type=int, default=1 << 17)
    ap.add_argument("--width", type=int, default=32)
    ap.add_argument("--hidden", type=int, default=512)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--steps", type=int, default=280)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--save-every", type=int, default=10)
    ap.add_argument("--contents", choices=["all", "weights"], default="all")
    ap.add_argument("--no-fsync", action="store_true")
    ap.add_argument("--threads", type=int)
    ap.add_argument("--log-every", type=int, default=50)
    args = ap.parse_args()

    torch.manual_seed(4)
    if args.threads:
        torch.set_num_threads(args.threads)
    reads, origin = make_reads(args.species, 20_000, args.reads, args.length)
    ids = kmers(reads, args.k, args.buckets)
    model = Taxa(args.buckets, args.width, args.hidden, args.species)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("ABROAD_DISK")) as temporary:
        checkpoints = Checkpoints(args.folder or temporary, args.contents, not args.no_fsync)
        first = checkpoints.load(model, optimizer)
        meter = Meter(20, args.batch_size)
        for step in range(first + 1, args.steps + 1):
            rows = torch.randint(args.reads, (args.batch_size,))
            loss = F.cross_entropy(model(ids[rows]), origin[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.log_every == 0:
                print(f"step {step} loss {loss.item():.4f}")
            if step % args.save_every == 0:
                checkpoints.save(step, model, optimizer)
            meter.step()
        meter.print()
        checkpoints.save(args.steps, model, optimizer)


if __name__ == "__main__":
    main()
