# SPDX-License-Identifier: Apache-2.0
"""A seeded training loop on real PyTorch that times its own next() calls and knows nothing of gpuwatch. The last line
of its output is what it saw, as JSON; everything else must not depend on whether it is watched."""

import argparse
import hashlib
import json
import sys
import time

import torch
from feeders import join_feeders
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

SAMPLES = 48


def make_sample(index, seconds):
    time.sleep(seconds)
    return torch.full((4,), float(index)) + torch.rand(4)


class Samples(Dataset):
    def __init__(self, seconds, raise_at=-1):
        self.seconds, self.raise_at = seconds, raise_at

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        if index == self.raise_at:
            raise ValueError(f"sample {index} is broken")
        return make_sample(index, self.seconds)


class Stream(IterableDataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        # The first worker has more to give than the last: their indices run out at different times.
        for index in range(first, SAMPLES + (8 if first == 0 else 0), step):
            yield make_sample(index, self.seconds)


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--iterable", action="store_true")
    parser.add_argument("--out-of-order", action="store_true")
    parser.add_argument("--stop-after", type=int, default=-1)
    parser.add_argument("--raise-at", type=int, default=-1)
    parser.add_argument("--context")
    parser.add_argument("--sample-ms", type=float, default=1)
    parser.add_argument("--compute-ms", type=float, default=2)
    parser.add_argument("--checkpoint")
    return parser.parse_args()


def make_loader(args):
    return DataLoader(
        Stream(args.sample_ms / 1e3) if args.iterable else Samples(args.sample_ms / 1e3, args.raise_at),
        batch_size=8,
        shuffle=not args.iterable,
        num_workers=args.workers,
        prefetch_factor=args.prefetch,
        persistent_workers=args.persistent,
        multiprocessing_context=args.context,
        in_order=not args.out_of_order,
    )


def run_delay_ns():
    """How long this thread could have run and had no CPU, by the kernel's account."""
    with open("/proc/thread-self/schedstat") as account:
        return int(account.read().split()[1])


def main():
    args = parse_arguments()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    loader = make_loader(args)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    digest, waits = hashlib.sha256(), []
    for _ in range(args.epochs):
        batches = iter(loader)
        taken = 0
        while taken != args.stop_after:
            delay, begin = run_delay_ns(), time.monotonic_ns()
            try:
                batch = next(batches)
            except StopIteration:
                break
            waits.append((begin, time.monotonic_ns(), run_delay_ns() - delay))
            taken += 1
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            digest.update(batch.numpy().tobytes())
            time.sleep(args.compute_ms / 1e3)
            del batch  # else the next one's assignment frees it within the time of its wait: a shared mapping each
        del batches
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    if args.checkpoint:
        torch.save(model.state_dict(), args.checkpoint)
    order_matters = not args.out_of_order
    print("digest", digest.hexdigest() if order_matters else "any order", flush=True)
    print(json.dumps({"steps": len(waits), "waits": waits, "python": sys.version.split()[0]}))


if __name__ == "__main__":
    main()
    join_feeders()
