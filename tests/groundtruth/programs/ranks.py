# SPDX-License-Identifier: Apache-2.0
"""Trains on several CPU ranks (gloo) of which one is late, and logs where each rank stood in each step. Started as one
process, it starts the ranks; each writes LOG/<rank>.json: for each step the CLOCK_MONOTONIC times in ns when it asked for
its batch, had it, was ready for the gradients' exchange, had exchanged them, and was done."""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--late", choices=("data", "compute", "checkpoint", "gc", "none"), default="data")
    parser.add_argument("--late-rank", type=int, default=1)
    parser.add_argument("--sample-ms", type=float, default=30, help="of a late rank's sample")
    parser.add_argument("--sync", choices=("ddp", "all_reduce", "async", "barrier", "fsdp"), default="ddp")
    parser.add_argument("--told", choices=("environment", "arguments"), default="environment")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--size", type=int, default=768)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--meeting", help="the file at which ranks meet")
    return parser.parse_args()


def start_ranks(options):
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for rank in range(options.ranks):
            told = {"RANK": str(rank), "WORLD_SIZE": str(options.ranks), "LOCAL_RANK": str(rank)}
            environment = {**os.environ, **(told if options.told == "environment" else {}), "OMP_NUM_THREADS": "1"}
            command = [sys.executable, *sys.argv, "--rank", str(rank), "--meeting", f"{folder}/meeting"]
            running.append(subprocess.Popen(command, env=environment))
        return max(process.wait() for process in running)


def train(options):
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, Dataset

    is_late = options.rank == options.late_rank
    data_s = options.sample_ms / 1000 if options.late == "data" and is_late else 0

    class Samples(Dataset):
        def __len__(self):
            return options.steps * options.batch

        def __getitem__(self, index):
            time.sleep(data_s)
            return torch.full((options.size,), float(index))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(options.size, options.size) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = torch.tanh(layer(x))
            return x.square().mean()

    def compute(times):
        for _ in range(times):
            torch.mm(work, work)

    def hold_up(step):
        if options.late == "compute":
            compute(8)
        elif options.late == "gc":
            gc.collect()
        elif options.late == "checkpoint" and step % 5 == 4:
            with open(options.log / "checkpoint", "wb") as file:
                torch.save(big, file)
                file.flush()
                os.fsync(file.fileno())

    def exchange():
        if options.sync == "all_reduce":
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        elif options.sync == "async":
            pending = [dist.all_reduce(parameter.grad, async_op=True) for parameter in model.parameters()]
            for work in pending:
                work.wait()
        elif options.sync == "barrier":
            dist.barrier()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{options.meeting}", rank=options.rank, world_size=options.ranks)
    big = torch.zeros(16 << 20) if options.late == "checkpoint" and is_late else None
    clutter = [[i] for i in range(1_500_000)] if options.late == "gc" and is_late else None
    work = torch.randn(768, 768)
    model = Model()
    if options.sync == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    elif options.sync == "fsdp":
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (options.ranks,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Samples(), batch_size=options.batch, num_workers=options.workers)
    log, asked = [], time.monotonic_ns()
    for step, batch in enumerate(loader):
        row = [asked, time.monotonic_ns()]
        loss = model(batch)
        compute(4)
        if is_late:
            hold_up(step)
        row.append(time.monotonic_ns())
        loss.backward()
        if options.sync not in ("ddp", "fsdp"):
            row[-1] = time.monotonic_ns()
        exchange()
        row.append(time.monotonic_ns())
        optimizer.step()
        optimizer.zero_grad()
        asked = time.monotonic_ns()
        log.append([*row, asked])
    (options.log / f"{options.rank}.json").write_text(json.dumps(log))
    del clutter
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    given = parse()
    sys.exit(start_ranks(given) if given.rank is None else train(given))
