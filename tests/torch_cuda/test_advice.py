# SPDX-License-Identifier: Apache-2.0
"""The story of articles on slow training, told by reports: an image training whose augmentation keeps the device idle for
more than half of the time. With a core left, more workers; with none, augmentation on the device, a batch that fills it, and
products in TF32. Each is what the report before proposes, by name and with what it gains.

On an A10: its tensor cores in TF32 are twice as fast as its FP32, so that what is foretold of them is no wide interval."""

import os

import pytest
from torch_zoo import assert_kept, samples_per_s

TRAIN = "train_images.py"
ON_HOST = ["--batch", 32, "--augment-ms", 2]
# Twice as long for two workers, on as many CPUs as they are.
WITHOUT_A_CORE = ["--batch", 32, "--augment-ms", 4, "--augment-by", "computing", "--workers", 2]
# What is left of an image on the host when the device augments it: so little that the same workers feed the fastest run.
ON_DEVICE = ["--augment-ms", 0.05, "--workers", 2]
TWO_CPUS = ("taskset", "-c", ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2]))


def run(zoo, *arguments, prefix=()):
    return zoo.run(TRAIN, arguments, {"DEVICE": "a10"}, prefix)


def device_use(job):
    return next(row["share"] for row in job.report["ranks"][0]["attribution"] if row["category"] == "compute")


def proposed(job, cause):
    found = job.find(cause)
    assert found, f"{cause} was not found\n{job.say()}"
    return found


def test_more_workers(zoo):
    slow = run(zoo, *ON_HOST)
    assert device_use(slow) == pytest.approx(0.4, abs=0.1)
    found = proposed(slow, "dataloader-workers")
    assert slow.findings[0] is found and found["prediction"]
    fast = run(zoo, *ON_HOST, "--workers", found["fix"]["value"])
    assert_kept(found, slow, fast)
    assert samples_per_s(fast) == pytest.approx(2 * samples_per_s(slow), rel=0.1)
    assert device_use(fast) > 0.8


def test_augmentation_on_the_device_then_batch_and_precision(zoo):
    slow = run(zoo, *WITHOUT_A_CORE, prefix=TWO_CPUS)
    assert device_use(slow) == pytest.approx(0.4, abs=0.1)
    augmentation = proposed(slow, "cpu-undersized")
    assert slow.findings[0] is augmentation and augmentation["prediction"] and "transforms on the GPU" in augmentation["fix"]["summary"]
    on_device = run(zoo, "--batch", 32, *ON_DEVICE, prefix=TWO_CPUS)
    assert_kept(augmentation, slow, on_device)
    assert device_use(on_device) > 0.85

    batch = proposed(on_device, "small-batch")
    assert on_device.findings[0] is batch and batch["prediction"] and batch["fix"]["value"] == "128"
    larger = run(zoo, "--batch", 128, *ON_DEVICE, prefix=TWO_CPUS)
    assert_kept(batch, on_device, larger)

    precision = proposed(larger, "mixed-precision")
    assert larger.findings[0] is precision and precision["ceiling"]  # how far memory limits matmuls is open: no prediction
    fastest = run(zoo, "--batch", 128, *ON_DEVICE, "--precision", precision["fix"]["value"], prefix=TWO_CPUS)
    assert_kept(precision, larger, fastest)
    assert samples_per_s(fastest) > 2 * samples_per_s(slow)
