# SPDX-License-Identifier: Apache-2.0
"""Takes the noise out of the strain that a gravitational wave detector records: dilated gated convolutions over several seconds and the
channels that witness the disturbances, trained with injected signals of merging black holes."""

import argparse
import contextlib

import torch
from meter import Meter
from torch import nn
from torch.utils.checkpoint import checkpoint

RATE = 2048


class Injections:
    """Endless batches: coloured noise, lines of the mains as the witnesses see them, and in half of them a chirp."""

    def __init__(self, batch_size, seconds, witnesses, device):
        self.batch_size, self.witnesses, self.device = batch_size, witnesses, device
        self.time = torch.arange(int(seconds * RATE), device=device) / RATE
        frequency = torch.fft.rfftfreq(len(self.time), 1 / RATE, device=device)
        self.colour = 1 / (1 + (30 / frequency.clamp(min=5)) ** 4 + (frequency / 400) ** 2).sqrt()

    def __iter__(self):
        return self

    def chirps(self):
        merger = self.time[-1] * (0.5 + 0.4 * torch.rand(self.batch_size, 1, device=self.device))
        left = (merger - self.time).clamp(min=1e-3)
        mass = 0.5 + torch.rand(self.batch_size, 1, device=self.device)
        present = (torch.rand(self.batch_size, 1, device=self.device) < 0.5) & (self.time < merger)
        return present * 0.05 * left**-0.25 * torch.cos(-300 * (left / mass) ** 0.625)

    def __next__(self):
        noise = torch.randn(self.batch_size, 1 + self.witnesses, len(self.time), device=self.device)
        noise = torch.fft.irfft(torch.fft.rfft(noise) * self.colour, n=len(self.time))
        phase = 6.2832 * torch.rand(self.batch_size, 1, 1, device=self.device)
        noise[:, 1:] += torch.sin(6.2832 * 60 * self.time + phase)
        signal = self.chirps()
        mixed = noise[:, 0] + (noise[:, 1:] ** 2).mean(1) + signal
        return torch.cat([mixed[:, None], noise[:, 1:]], 1), signal


class GatedBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.dilated = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.mix = nn.Conv1d(width, 2 * width, 1)

    def forward(self, x):
        residual, skip = self.mix(nn.functional.glu(self.dilated(self.norm(x)), 1)).chunk(2, 1)
        return x + residual, skip


class Cleaner(nn.Module):
    """`saved`: where the activations wait for the backward pass: in host memory, on the device, or nowhere (they are computed again)."""

    def __init__(self, channels, width, stacks, dilations, saved, spared):
        super().__init__()
        self.first = nn.Conv1d(channels, width, 7, padding=3)
        self.blocks = nn.ModuleList([GatedBlock(width, 2**power) for _ in range(stacks) for power in range(dilations)])
        self.last = nn.Sequential(nn.SiLU(), nn.Conv1d(width, width, 1), nn.SiLU(), nn.Conv1d(width, 1, 1))
        self.saved, self.spared = saved, spared

    def run(self, number, block, x):
        if number >= len(self.blocks) - self.spared or not self.training:
            return block(x)
        if self.saved == "recompute":
            return checkpoint(block, x, use_reentrant=False)
        with torch.autograd.graph.save_on_cpu(pin_memory=True) if self.saved == "host" else contextlib.nullcontext():
            return block(x)

    def forward(self, strain):
        x, total = self.first(strain), 0
        for number, block in enumerate(self.blocks):
            x, skip = self.run(number, block, x)
            total = total + skip
        return self.last(total).squeeze(1)


def spectral_loss(guess, signal, windows=(256, 1024)):
    """Error in time, and of the magnitudes in two short-time spectra."""
    loss = nn.functional.mse_loss(guess, signal)
    for size in windows:
        window = torch.hann_window(size, device=guess.device)
        spectra = (torch.stft(x, size, size // 4, window=window, return_complex=True).abs() for x in (guess, signal))
        loss = loss + 0.1 * nn.functional.l1_loss(*spectra)
    return loss


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    data = parser.add_argument_group("data")
    data.add_argument("--seconds", type=float, default=8.0)
    data.add_argument("--witnesses", type=int, default=7)
    data.add_argument("--batch-size", type=int, default=4)
    network = parser.add_argument_group("network")
    network.add_argument("--width", type=int, default=64)
    network.add_argument("--stacks", type=int, default=2)
    network.add_argument("--dilations", type=int, default=6)
    network.add_argument("--saved", choices=["host", "device", "recompute"], default="host", help="where activations wait for the backward pass")
    network.add_argument("--spared", type=int, default=0, help="so many blocks at the end always keep theirs on the device")
    training = parser.add_argument_group("training")
    training.add_argument("--steps", type=int, default=180)
    training.add_argument("--lr", type=float, default=1e-3)
    training.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="bf16")
    training.add_argument("--benchmark", action="store_true")
    training.add_argument("--fused", action="store_true")
    training.add_argument("--log-every", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(15)
    device = torch.device("cuda")
    torch.backends.cudnn.benchmark = args.benchmark
    torch.backends.cudnn.allow_tf32 = args.precision != "fp32"

    model = Cleaner(1 + args.witnesses, args.width, args.stacks, args.dilations, args.saved, args.spared).to(device)
    optimizer = torch.optim.Adam(model.parameters(), args.lr, fused=args.fused or None)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    meter = Meter(12, args.batch_size, torch.cuda.synchronize)
    for step, (strain, signal) in zip(range(1, args.steps + 1), Injections(args.batch_size, args.seconds, args.witnesses, device)):
        with torch.autocast("cuda", torch.bfloat16, enabled=args.precision == "bf16"):
            guess = model(strain)
        loss = spectral_loss(guess.float(), signal)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % args.log_every == 0:
            used = torch.cuda.max_memory_allocated() / 2**20
            print(f"step {step:4d} of {args.steps}: loss {loss.item():.4f}, at most {used:.0f} MiB on the device", flush=True)
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
