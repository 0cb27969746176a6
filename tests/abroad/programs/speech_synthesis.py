# SPDX-License-Identifier: Apache-2.0
"""Acoustic model of a speech synthesiser: phonemes to mel frames by two transformers, with durations from the alignment."""

import argparse
import contextlib

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


class FeedForward(nn.Module):
    """Its inner activations overflowed in half precision in an early version."""

    def __init__(self, dim, factor, precision):
        super().__init__()
        self.norm, self.precision = nn.LayerNorm(dim), precision
        self.up, self.down = nn.Linear(dim, factor * dim), nn.Linear(factor * dim, dim)

    def forward(self, x):
        island = torch.autocast("cuda", enabled=False) if self.precision == "fp32" else contextlib.nullcontext()
        with island:
            if self.precision == "fp32":
                x = x.float()
            return x + self.down(F.relu(self.up(self.norm(x)), inplace=True))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm, self.qkv, self.out, self.heads = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, dim))


def transformer(dim, depth, precision):
    parts = [part for _ in range(depth) for part in (Attention(dim, dim // 64), FeedForward(dim, 4, precision))]
    return nn.Sequential(*parts)


class AcousticModel(nn.Module):
    def __init__(self, dim, depth, frames_per_phoneme, precision):
        super().__init__()
        self.phonemes, self.frames_per_phoneme = nn.Embedding(120, dim), frames_per_phoneme
        self.encoder, self.decoder = transformer(dim, depth, precision), transformer(dim, depth, precision)
        self.duration = nn.Sequential(nn.Linear(dim, dim // 2), nn.ReLU(), nn.Linear(dim // 2, 1))
        self.mel = nn.Linear(dim, 80)
        self.postnet = nn.Sequential(nn.Conv1d(80, 256, 5, padding=2), nn.Tanh(), nn.Conv1d(256, 80, 5, padding=2))

    def forward(self, phonemes):
        hidden = self.encoder(self.phonemes(phonemes))
        durations = self.duration(hidden).squeeze(2)
        mel = self.mel(self.decoder(hidden.repeat_interleave(self.frames_per_phoneme, 1)))
        return mel, mel + self.postnet(mel.transpose(1, 2)).transpose(1, 2), durations


class Trainer:
    def __init__(self, args):
        self.args = args
        self.model = AcousticModel(args.dim, args.depth, args.frames_per_phoneme, args.ffn_precision).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), args.lr, betas=(0.9, 0.98), fused=True)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min((step + 1) / 4000, 1))
        self.meter = Meter(15, args.batch_size, torch.cuda.synchronize)

    def batches(self):
        args, frames = self.args, self.args.phonemes * self.args.frames_per_phoneme
        phonemes = torch.randint(1, 120, (8 * args.batch_size, args.phonemes), device="cuda")
        mels = torch.randn(8 * args.batch_size, frames, 80, device="cuda")
        durations = torch.full((8 * args.batch_size, args.phonemes), float(args.frames_per_phoneme), device="cuda").log()
        for step in range(args.total_steps):
            part = slice(step % 8 * args.batch_size, (step % 8 + 1) * args.batch_size)
            yield phonemes[part], mels[part], durations[part]

    def losses(self, phonemes, mels, durations):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            coarse, fine, predicted = self.model(phonemes)
        return {
            "mel": F.l1_loss(coarse.float(), mels), "postnet": F.l1_loss(fine.float(), mels),
            "duration": F.mse_loss(predicted.float(), durations),
        }  # fmt: skip

    def fit(self):
        for step, batch in enumerate(self.batches()):
            losses = self.losses(*batch)
            self.optimizer.zero_grad(set_to_none=True)
            sum(losses.values()).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
            self.optimizer.step()
            self.schedule.step()
            if step % self.args.log_step == 0:
                print(f"step {step}/{self.args.total_steps}", {name: round(value.item(), 4) for name, value in losses.items()})
            self.meter.step()
        self.meter.print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--phonemes", type=int, default=80)
    parser.add_argument("--frames-per-phoneme", type=int, default=6)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--total-steps", type=int, default=100)
    parser.add_argument("--ffn-precision", choices=["fp32", "amp"], default="fp32")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--log-step", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    Trainer(args).fit()


if __name__ == "__main__":
    main()
