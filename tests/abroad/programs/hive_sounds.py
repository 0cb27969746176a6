# SPDX-License-Identifier: Apache-2.0
"""Lightning: does a beehive have its queen? Tells by the hum of the colony, through a bank of gammatone filters. Hives with a queen are
far more common, so each epoch has all recordings without one and as many of the others, drawn anew."""

import argparse
import functools
import logging
import warnings

import lightning as L
import numpy as np
import torch
from meter import Meter
from scipy import fft, signal
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler, Subset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
RATE, SECONDS, BANDS, FRAME = 4000, 1, 20, 80


class GammatoneBank:
    """Filters on the ERB scale from 60 to 1500 Hz, each with the same peak."""

    def __init__(self, lowest=60.0, highest=1500.0, taps=1024):
        low, high = (21.4 * np.log10(1 + 0.00437 * hertz) for hertz in (lowest, highest))
        self.centres = (10 ** (np.linspace(low, high, BANDS) / 21.4) - 1) / 0.00437
        self.kernels = np.stack([self.kernel(centre, taps) for centre in self.centres])
        self.length = fft.next_fast_len(taps + RATE * SECONDS, real=True)
        self.spectra = fft.rfft(self.kernels.astype(np.float32), self.length)

    @staticmethod
    def kernel(centre, taps):
        t = np.arange(taps) / RATE
        width = 1.019 * 24.7 * (0.00437 * centre + 1)
        shape = t**3 * np.exp(-2 * np.pi * width * t) * np.cos(2 * np.pi * centre * t)
        peak = np.abs(signal.freqz(shape, worN=8192)[1]).max()
        return shape / peak

    def __call__(self, sound):
        bands = fft.irfft(self.spectra * fft.rfft(sound, self.length), self.length)[:, : RATE * SECONDS]
        power = np.square(bands).reshape(BANDS, -1, FRAME).mean(2)
        return np.log(power + 1e-8)


class Hives(Dataset):
    def __init__(self, with_queen, without, seed=19):
        rng = np.random.default_rng(seed)
        self.queenless = np.arange(with_queen + without) >= with_queen
        self.pitch = np.where(self.queenless, rng.normal(290, 25, len(self.queenless)), rng.normal(245, 25, len(self.queenless)))

    def __len__(self):
        return len(self.queenless)

    @functools.cached_property
    def bank(self):
        return GammatoneBank()

    def sound(self, index):
        rng = np.random.default_rng(int(index))
        phase = 2 * np.pi * self.pitch[index] * np.arange(RATE * SECONDS) / RATE
        return (np.sin(phase) + 0.5 * np.sin(2 * phase + 1) + 1.5 * rng.standard_normal(RATE * SECONDS)).astype(np.float32)

    def __getitem__(self, index):
        return self.bank(self.sound(index)), np.float32(self.queenless[index])


class Balanced(Sampler):
    """Draws when an epoch begins."""

    def __init__(self, queenless, generator):
        self.rare, self.common = (torch.from_numpy(np.flatnonzero(kind)) for kind in (queenless, ~queenless))
        self.generator = generator

    def __len__(self):
        return 2 * len(self.rare)

    def __iter__(self):
        some = self.common[torch.randperm(len(self.common), generator=self.generator)[: len(self.rare)]]
        both = torch.cat([self.rare, some])
        return iter(both[torch.randperm(len(both), generator=self.generator)].tolist())


class HiveData(L.LightningDataModule):
    def __init__(self, args):
        super().__init__()
        self.args, self.hives = args, Hives(args.with_queen, args.without_queen)
        self.balanced = Balanced(self.hives.queenless, torch.Generator().manual_seed(19))

    def train_dataloader(self):
        options = {"num_workers": self.args.num_workers, "drop_last": True}
        if self.args.num_workers:
            options |= {"persistent_workers": True, "prefetch_factor": self.args.prefetch_factor}
        if self.args.balance == "sampler":
            return DataLoader(self.hives, self.args.batch_size, sampler=self.balanced, **options)
        return DataLoader(Subset(self.hives, list(self.balanced)), self.args.batch_size, shuffle=True, **options)


class QueenNet(L.LightningModule):
    def __init__(self, meter, args):
        super().__init__()
        self.meter, self.args = meter, args
        width, layers = args.width, []
        for inputs, outputs in ((BANDS, width), (width, width), (width, 2 * width)):
            layers += [nn.Conv1d(inputs, outputs, 5, padding=2), nn.BatchNorm1d(outputs), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(2 * width, 1))

    def training_step(self, batch, index):
        bands, queenless = batch
        scores = self.net(bands).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, queenless)
        self.log("loss", loss, on_step=True)
        return loss

    def on_train_batch_end(self, *_):
        self.meter.step()

    def on_train_epoch_end(self):
        if (self.current_epoch + 1) % 5 == 0:
            print(f"epoch {self.current_epoch + 1}: loss {float(self.trainer.callback_metrics['loss']):.4f}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=self.args.fused)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--with-queen", type=int, default=4000)
    parser.add_argument("--without-queen", type=int, default=112)
    parser.add_argument("--balance", choices=["subset", "sampler"], default="subset", help="what draws the recordings of an epoch")
    parser.add_argument("--redraw-every", type=int, default=1, metavar="EPOCHS", help="for the subset; 0: never")
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=36)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch, for a network this small")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--log-every-n-steps", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    L.seed_everything(19, verbose=False)
    meter = Meter(28, args.batch_size)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=args.epochs, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        log_every_n_steps=args.log_every_n_steps, reload_dataloaders_every_n_epochs=args.redraw_every if args.balance == "subset" else 0,
    )  # fmt: skip
    trainer.fit(QueenNet(meter, args), datamodule=HiveData(args))
    meter.print()


if __name__ == "__main__":
    main()
