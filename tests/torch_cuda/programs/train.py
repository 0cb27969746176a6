# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of rows of numbers, as many do; options bring in what makes such a job slow.

Its last line is {"step_ms": mean by its own clock between two synchronised steps, "run_delay_share": of that time, waiting for a CPU}.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from step_clock import Clock
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

CLASSES = 16
COMPILED = 20  # steps until torch.compile has compiled, recorded and settled


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=1 << 15)
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--precision", choices=["highest", "high", "bfloat16"], default="high")
    parser.add_argument("--compile", choices=["default", "reduce-overhead"], help="mode of torch.compile")
    parser.add_argument("--graph", action="store_true", help="a step is one CUDA graph")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--read-ms", type=float, default=0, help="storage takes so long for a batch")
    parser.add_argument("--no-pin", action="store_true")
    parser.add_argument("--copy-stream", action="store_true", help="bring the next batch while this one is used")
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--log-norms", action="store_true", help="log those of all weights and gradients, too")
    parser.add_argument("--environment-ms", type=float, default=0, help="a simulator answers after so long, in each step")
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--empty-cache", action="store_true")
    return parser.parse_args()


class Shards(Dataset):
    """A file each batch."""

    def __init__(self, args):
        self.args = args

    def __len__(self):
        return self.args.steps

    def __getitem__(self, index):
        time.sleep(self.args.read_ms / 1e3)
        return torch.zeros(self.args.batch, self.args.features), torch.zeros(self.args.batch, dtype=torch.long)


def make_loader(args):
    return DataLoader(Shards(args), batch_size=None, shuffle=True, num_workers=args.workers, pin_memory=not args.no_pin)


def on_device(loader, args):
    """Batches on the device; with a stream for copies each is on its way while the one before is used."""
    if not args.copy_stream:
        for x, y in loader:
            yield x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        return
    stream, following = torch.cuda.Stream(), None
    for x, y in loader:
        with torch.cuda.stream(stream):
            coming = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True), stream.record_event()
        if following:
            yield arrived(following)
        following = coming
    yield arrived(following)


def arrived(batch):
    x, y, copied = batch
    torch.cuda.current_stream().wait_event(copied)
    x.record_stream(torch.cuda.current_stream())
    y.record_stream(torch.cuda.current_stream())
    return x, y


def make_model(args):
    layers = [nn.Linear(args.features, args.width), nn.ReLU()]
    for _ in range(args.depth):
        layers += [nn.Linear(args.width, args.width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(args.width, CLASSES))


def captured(train_step, x, y):
    """`train_step` as a CUDA graph, on copies of what it is given."""
    x, y = x.clone(), y.clone()
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            train_step(x, y)
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train_step(x, y)

    def replay(new_x, new_y):
        x.copy_(new_x)
        y.copy_(new_y)
        graph.replay()
        return loss

    return replay


def main():
    args = options()
    if args.precision == "high":
        torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = make_model(args)
    if args.compile:
        model = torch.compile(model, mode=args.compile)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=args.graph)

    def train_step(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.precision == "bfloat16"):
            loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        for step, (x, y) in enumerate(on_device(make_loader(args), args)):
            if args.graph and step == 0:
                train_step = captured(train_step, x, y)
            loss = train_step(x, y)
            if args.environment_ms:
                time.sleep(args.environment_ms / 1e3)
            if args.empty_cache:
                torch.cuda.empty_cache()
            if args.save_every and step % args.save_every == 0:
                torch.save(model.state_dict(), Path(folder) / "model.pt")
            if step % args.log_every == 0:
                norms = [t.norm().item() for p in model.parameters() for t in (p, p.grad)] if args.log_norms else []
                print(step, loss.item(), *norms)
                if not args.compile or step >= COMPILED:
                    clock.mark(step)
    torch.cuda.synchronize()
    clock.mark(step)
    clock.print()


if __name__ == "__main__":
    main()
