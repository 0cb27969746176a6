# SPDX-License-Identifier: Apache-2.0
"""A training job with something to gain from workers, and with the habits that make a second run of it dangerous: it resumes
from last.pt, appends to a log and overwrites its checkpoint. Its samples come from a server that takes 5 ms each."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Served(Dataset):
    def __init__(self, batches=2000):
        self.batches = batches

    def __len__(self):
        return 8 * self.batches

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((64,), float(index % 7))


def save(model, step):
    new = f"last.pt.{os.getpid()}"
    torch.save({"model": model.state_dict(), "step": step}, new)
    os.replace(new, "last.pt")


def spawn(words):
    """A helper of its own session, as a launcher or a metrics daemon is."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", words])
        os._exit(0)


def loader_of(options):
    return DataLoader(Served(options.anew or 2000), batch_size=8, shuffle=True, num_workers=options.num_workers)


def batches(loader, options):
    yield from loader
    while options.anew:
        yield from loader_of(options)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--anew", type=int, default=0, metavar="BATCHES", help="make a DataLoader for so many, and then the next one")
    parser.add_argument("--ignore-signals", action="store_true")
    parser.add_argument("--save-at-exit", action="store_true")
    parser.add_argument("--daemon", metavar="SECONDS")
    parser.add_argument("--die-with-workers", action="store_true")
    options = parser.parse_args()
    if options.ignore_signals:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if options.daemon:
        spawn(options.daemon)
    resumed = torch.load("last.pt")["step"] if Path("last.pt").exists() else 0
    with open("log.txt", "a") as log:
        print("started at step", resumed, file=log)
    loader = loader_of(options)
    if options.die_with_workers and loader.num_workers > 0:
        sys.exit("no workers on this cluster")
    torch.manual_seed(resumed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    step, start = resumed, time.perf_counter()
    try:
        for batch in batches(loader, options):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            time.sleep(0.004)  # a model that a server computes
            optimizer.step()
            step += 1
            if step % 20 == 0:
                print(f"step {step} loss {loss.item():.4f} {8 * 20 / (time.perf_counter() - start):.1f} samples/s", flush=True)
                save(model, step)
                start = time.perf_counter()
    finally:
        if options.save_at_exit:
            time.sleep(1)
            save(model, step)
            Path("finished.txt").write_text(f"{step}\n")


if __name__ == "__main__":
    main()
