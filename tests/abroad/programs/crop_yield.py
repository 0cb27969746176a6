# SPDX-License-Identifier: Apache-2.0
"""Yield of wheat, field by field, from satellite indices and the season's weather. The weather of a field's grid cell comes from the
provider's service, whose terms allow so many requests a second; all processes of the job keep to that together. Ignite trains."""

import functools
import multiprocessing
import time

import click
import numpy as np
import torch
from ignite.engine import Engine, Events
from ignite.metrics import RunningAverage
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

DAYS, VARIABLES, LOOKS = 150, 6, 20


class Quota:
    """Sleeps until it is this request's turn."""

    def __init__(self, per_second):
        self.gap, self.following = 1 / per_second, multiprocessing.Value("d", 0.0)

    def wait(self):
        with self.following.get_lock():
            turn = max(time.monotonic(), self.following.value)
            self.following.value = turn + self.gap
        time.sleep(max(0.0, turn - time.monotonic()))


class WeatherService:
    """Stands for the provider's client: a request has an answer after some milliseconds, for one cell or for up to 100."""

    def __init__(self, quota, latency_ms):
        self.quota, self.latency = quota, latency_ms / 1e3

    def seasons(self, cells):
        self.quota.wait()
        time.sleep(self.latency)
        return {cell: self.season(cell) for cell in cells}

    @functools.cached_property
    def climate(self):
        days = np.linspace(0, np.pi, DAYS)[:, None]
        return np.sin(days + np.arange(VARIABLES) / 3).astype(np.float32)

    def season(self, cell):
        return self.climate + np.random.default_rng(cell).standard_normal((DAYS, VARIABLES), np.float32) / 4


class Fields(Dataset):
    def __init__(self, count, cells, service, keep):
        rng = np.random.default_rng(41)
        self.cell = rng.integers(0, cells, count).tolist()
        self.looks = rng.random((count, LOOKS, 10), np.float32)
        self.tonnes = self.looks.mean((1, 2)) * 8 + rng.normal(0, 0.5, count).astype(np.float32)
        self.service, self.keep, self.kept = service, keep, {}

    def __len__(self):
        return len(self.cell)

    def weather(self, cells):
        missing = sorted(set(cells) - self.kept.keys())
        found = self.kept | (self.service.seasons(missing) if missing else {})
        if self.keep:
            self.kept = found
        return [found[cell] for cell in cells]

    def __getitem__(self, index):
        (season,) = self.weather([self.cell[index]])
        return self.looks[index], season, np.float32(self.tonnes[index])


class FieldsOfABatch(Fields):
    """The loader hands over all indices of a batch, and one request asks for all of their cells."""

    def __getitems__(self, indices):
        seasons = self.weather([self.cell[index] for index in indices])
        return [(self.looks[index], season, np.float32(self.tonnes[index])) for index, season in zip(indices, seasons)]


class YieldNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.looks = nn.GRU(10, width, batch_first=True)
        self.week = nn.Sequential(nn.Conv1d(VARIABLES, width, 7, 3, 3), nn.GELU(), nn.Conv1d(width, width, 5, 1, 2), nn.GELU())
        self.season = nn.GRU(width, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, looks, season):
        _, seen = self.looks(looks)
        _, lived = self.season(self.week(season.transpose(1, 2)).transpose(1, 2))
        return self.head(torch.cat([seen[0], lived[0]], 1)).squeeze(1)


@click.command()
@click.option("--requests-per-second", default=250.0, show_default=True, help="what the contract allows")
@click.option("--latency-ms", default=4.0, show_default=True)
@click.option("--ask-for", type=click.Choice(["field", "batch"]), default="field", show_default=True)
@click.option("--keep-weather", is_flag=True, help="a process asks once for each cell")
@click.option("--num-workers", default=2, show_default=True)
@click.option("--prefetch-factor", default=2, show_default=True)
@click.option("--batch-size", default=20, show_default=True)
@click.option("--width", default=96, show_default=True)
@click.option("--fields", default=1800, show_default=True)
@click.option("--cells", default=60, show_default=True)
@click.option("--epochs", default=2, show_default=True)
@click.option("--log-every", default=40, show_default=True)
def main(
    requests_per_second, latency_ms, ask_for, keep_weather, num_workers, prefetch_factor, batch_size, width, fields, cells, epochs,
    log_every,
):  # fmt: skip
    torch.manual_seed(41)
    service = WeatherService(Quota(requests_per_second), latency_ms)
    dataset = (FieldsOfABatch if ask_for == "batch" else Fields)(fields, cells, service, keep_weather)
    loader = DataLoader(
        dataset, batch_size, shuffle=True, drop_last=True, num_workers=num_workers, persistent_workers=num_workers > 0,
        prefetch_factor=prefetch_factor if num_workers else None,
    )  # fmt: skip
    net = YieldNet(width)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)

    def update(engine, batch):
        looks, season, tonnes = batch
        loss = nn.functional.smooth_l1_loss(net(looks, season), tonnes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    trainer, meter = Engine(update), Meter(25, batch_size)
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "loss")
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: meter.step())

    @trainer.on(Events.ITERATION_COMPLETED(every=log_every))
    def report(engine):
        print(f"epoch {engine.state.epoch} iteration {engine.state.iteration} loss {engine.state.metrics['loss']:.4f}")

    trainer.run(loader, max_epochs=epochs)
    meter.print()


if __name__ == "__main__":
    main()
