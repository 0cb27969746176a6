# SPDX-License-Identifier: Apache-2.0
"""Who is typing? Keystroke dynamics: an LSTM embeds the rhythm of fifty keystrokes, two samples of one user belong together. The
profiler looks at some steps, to find out why the server is slower than the laptop."""

import argparse
import contextlib
import os
import tempfile

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler
from torch.utils.data import DataLoader, Dataset

FEATURES = 5  # hold, press to press, release to press, release to release, key


class Keystrokes(Dataset):
    """Pairs of sessions of one user, with timings in seconds. Everything is in memory."""

    def __init__(self, users, sessions, length, seed=27):
        rng = np.random.default_rng(seed)
        speed = rng.lognormal(-1.6, 0.3, (users, 1, 1))
        hold = rng.lognormal(-2.3, 0.2, (users, 1, 1))
        keys = rng.integers(0, 60, (users, sessions, length))
        habit = rng.lognormal(0, 0.3, (users, 60))[np.arange(users)[:, None, None], keys]
        down = hold * rng.lognormal(0, 0.15, keys.shape)
        gap = speed * habit * rng.lognormal(0, 0.25, keys.shape)
        self.data = np.stack([down, gap, gap - down, gap + 0.1 * down, keys / 60], -1).astype(np.float32)

    def __len__(self):
        return self.data.shape[0] * self.data.shape[1]

    def __getitem__(self, index):
        user, session = divmod(index, self.data.shape[1])
        other = (session + 1 + index % (self.data.shape[1] - 1)) % self.data.shape[1]
        return self.data[user, session], self.data[user, other], user


class TypeNet(nn.Module):
    def __init__(self, hidden, embedding):
        super().__init__()
        self.norm = nn.BatchNorm1d(FEATURES)
        self.first = nn.LSTM(FEATURES, hidden, batch_first=True)
        self.middle = nn.Sequential(nn.Dropout(0.3), nn.LayerNorm(hidden))
        self.second = nn.LSTM(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, embedding)

    def forward(self, x):
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        x, _ = self.first(x)
        x, _ = self.second(self.middle(x))
        return nn.functional.normalize(self.out(x[:, -1]), dim=1)


def contrast(first, second, users, temperature=0.1):
    """Other sessions of the same user are no negatives."""
    scores = first @ second.T / temperature
    same = users[:, None] == users[None]
    same.fill_diagonal_(False)
    return nn.functional.cross_entropy(scores.masked_fill(same, -1e9), torch.arange(len(first)))


def make_profiler(args, folder):
    if not args.profile_cycles:
        return contextlib.nullcontext()
    cycles = max(0, args.profile_cycles)  # 0 of the schedule's means without end
    return profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(skip_first=5, wait=args.profile_wait, warmup=1, active=3, repeat=cycles),
        on_trace_ready=tensorboard_trace_handler(folder),
        record_shapes=True,
        profile_memory=True,
        with_stack=args.profile_stacks,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, default=400)
    parser.add_argument("--sessions", type=int, default=15)
    parser.add_argument("--length", type=int, default=50)
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--embedding", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--profile-cycles", type=int, default=-1, help="-1: as long as the training runs; 0: none")
    parser.add_argument("--profile-wait", type=int, default=16, help="steps between the looks")
    parser.add_argument("--profile-stacks", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--log-every", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(27)

    data = Keystrokes(args.users, args.sessions, args.length)
    options = {"prefetch_factor": args.prefetch_factor} if args.num_workers else {}
    loader = DataLoader(data, args.batch_size, shuffle=True, drop_last=True, num_workers=args.num_workers, **options)
    model = TypeNet(args.hidden, args.embedding)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.999), fused=args.fused)
    meter, step = Meter(25, args.batch_size), 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("ABROAD_DISK")) as folder, make_profiler(args, folder) as profiler:
        while step < args.steps:
            for first, second, users in loader:
                embedded = model(torch.cat([first, second]))
                loss = contrast(*embedded.chunk(2), users)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                if profiler:
                    profiler.step()
                step += 1
                if step % args.log_every == 0:
                    print(f"step {step:4}  loss {loss.item():.4f}", flush=True)
                meter.step()
                if step == args.steps:
                    break
        meter.print()


if __name__ == "__main__":
    main()
