# SPDX-License-Identifier: Apache-2.0
"""Peptides by their tandem mass spectra: a contrastive embedding of spectra, read from indexed mzML as the instrument's converter
wrote it. Two noisy versions of a spectrum belong together."""

import argparse
import base64
import functools
import logging
import re
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("spectra")
LOW, HIGH, BINS = 100.0, 1600.0, 1024


class MzML:
    """Random access by the index at the end of the file."""

    def __init__(self, path):
        self.path, self.file = path, None
        text = path.read_bytes()
        start = int(re.search(rb"<indexListOffset>(\d+)<", text[-200:])[1])
        self.offsets = [int(place) for place in re.findall(rb"<offset[^>]*>(\d+)<", text[start:])] + [start]

    def spectrum(self, number):
        if self.file is None:
            self.file = self.path.open("rb")
        self.file.seek(self.offsets[number])
        element = ElementTree.fromstring(self.file.read(self.offsets[number + 1] - self.offsets[number]).rsplit(b"</spectrum>", 1)[0] + b"</spectrum>")
        arrays = {}
        for array in element.iter("binaryDataArray"):
            terms = {term.get("name") for term in array.iter("cvParam")}
            raw = zlib.decompress(base64.b64decode(array.findtext("binary")))
            arrays["mz" if "m/z array" in terms else "intensity"] = np.frombuffer(raw, "<f8" if "64-bit float" in terms else "<f4")
        precursor = next(float(term.get("value")) for term in element.iter("cvParam") if term.get("name") == "selected ion m/z")
        return arrays["mz"], arrays["intensity"], precursor


def preprocess(mz, intensity, precursor, per_window):
    """Without the precursor, square roots, the highest peaks of each window of 50 Th."""
    kept = (np.abs(mz - precursor) > 1.5) & (mz > LOW) & (mz < HIGH)
    mz, intensity = mz[kept], np.sqrt(intensity[kept])
    if per_window:
        window, chosen = ((mz - LOW) // 50).astype(int), []
        for number in range(window.max() + 1):
            inside = np.flatnonzero(window == number)
            chosen.append(inside[np.argsort(intensity[inside])[-per_window:]])
        chosen = np.concatenate(chosen)
        mz, intensity = mz[chosen], intensity[chosen]
    return ((mz - LOW) / (HIGH - LOW) * BINS).astype(np.int64), (intensity / np.linalg.norm(intensity)).astype(np.float32)


class Spectra(Dataset):
    def __init__(self, folder, per_window, cache):
        self.runs = [MzML(path) for path in sorted(Path(folder).glob("*.mzML"))]
        self.places = [(run, number) for run, file in enumerate(self.runs) for number in range(len(file.offsets) - 1)]
        self.per_window = per_window
        self.peaks = functools.lru_cache(cache)(self.load)

    def load(self, index):
        run, number = self.places[index]
        return preprocess(*self.runs[run].spectrum(number), self.per_window)

    def __len__(self):
        return len(self.places)

    def __getitem__(self, index):
        place, height = self.peaks(index)
        views = torch.zeros(2, BINS)
        for view in views:
            factor = torch.empty(len(place)).uniform_(0.5, 1.5) * (torch.rand(len(place)) > 0.2)
            view.index_add_(0, torch.from_numpy(place), torch.from_numpy(height) * factor)
        return views


class Encoder(nn.Sequential):
    def __init__(self, width, out=64):
        layers = [nn.Linear(BINS, width)]
        for _ in range(2):
            layers += [nn.BatchNorm1d(width), nn.SiLU(), nn.Dropout(0.1), nn.Linear(width, width)]
        super().__init__(*layers, nn.SiLU(), nn.Linear(width, out))


def nt_xent(first, second, temperature):
    both = nn.functional.normalize(torch.cat([first, second]), dim=1)
    scores = both @ both.T / temperature
    scores.fill_diagonal_(-1e9)
    return nn.functional.cross_entropy(scores, torch.arange(len(both)).roll(len(first)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("runs")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--peaks-per-window", type=int, default=6)
    parser.add_argument("--cache", type=int, default=256, metavar="SPECTRA")
    parser.add_argument("--log-every", type=int, default=30)
    args = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s", level=logging.INFO)
    torch.manual_seed(17)

    data = Spectra(args.runs, args.peaks_per_window, args.cache)
    log.info("%d spectra in %d runs", len(data), len(data.runs))
    options = {"prefetch_factor": args.prefetch_factor, "persistent_workers": True} if args.num_workers else {}
    loader = DataLoader(data, args.batch_size, shuffle=True, drop_last=True, num_workers=args.num_workers, **options)
    model = Encoder(args.width)
    optimizer = torch.optim.Adam(model.parameters(), 3e-4)
    meter, step = Meter(len(loader), args.batch_size), 0
    for epoch in range(args.epochs):
        for views in loader:
            loss = nt_xent(*model(views.transpose(0, 1).flatten(0, 1)).chunk(2), 0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % args.log_every == 0:
                log.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
            meter.step()
    meter.print()


if __name__ == "__main__":
    main()
