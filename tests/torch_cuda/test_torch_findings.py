# SPDX-License-Identifier: Apache-2.0
"""The right finding on the CUDA build of PyTorch: rows of the zoo (torch_zoo.py) on the simulated device.

Kernels take tens of milliseconds a step, so that a busy machine is not what limits; batches are small, and where copies
matter the link is slow.
"""

import pytest
from torch_zoo import Case, check_healthy

TRAIN = "train.py"
SLOW_LINK = "slow_link"
SLOW_ALLOCATION = "slow_allocation"
HEALTHY = []
ONE_WIDE_LAYER = ["--width", 16384, "--depth", 0]

CASES = [
    # Products by 16 columns: they wait for memory as soon as they are faster, and less is gained than the ceiling.
    Case(
        "mixed-precision", TRAIN, has=[*ONE_WIDE_LAYER, "--precision", "highest"], neighbour=HEALTHY, applied=ONE_WIDE_LAYER,
        fix={"setting": "torch.set_float32_matmul_precision", "value": "high"}, gain="ceiling",
    ),
    # 1.1 G parameters, which the optimizer goes through for 128 rows as for 32768. The loader's batches are the dataset's, so
    # that how many rows they have is the dataset's to change.
    Case(
        "small-batch", TRAIN, has=["--batch", 128, "--width", 16384], neighbour=HEALTHY,
        fix={"setting": "batch_size", "value": "x16"}, location="return DataLoader(", gain="ceiling",
    ),
    # 2 MB a batch over a link that takes 4 ms for them.
    Case(
        "pin-memory", TRAIN, has=["--no-pin"], neighbour=HEALTHY, env={"DEVICE": SLOW_LINK},
        neighbour_env={}, fix={"setting": "pin_memory", "value": "True"}, location="return DataLoader(", gain="either",
    ),
    # 57 waits a step, each with a launch behind it. A loss alone costs the launches after it: 2% of the step on a quick CPU,
    # and with a batch of 1024 nothing on a slow one, where the launches take longer than the kernels.
    Case(
        "sync-per-step", TRAIN, has=["--batch", 4096, "--depth", 12, "--log-every", 1, "--log-norms"], neighbour=HEALTHY,
        fix={"setting": "synchronisation"}, location="t.norm().item()", gain="either",
    ),
    # Kernels of 2 us, and half the launches are autograd's, which has a thread of its own.
    Case(
        "launch-bound", TRAIN, has=["--batch", 256, "--width", 64, "--depth", 30], neighbour=HEALTHY,
        fix={"setting": "torch.compile", "value": 'mode="reduce-overhead"'}, gain="either",
    ),
    # As long to read a batch as to use it: one worker hides it.
    Case(
        "dataloader-workers", TRAIN, has=["--workers", 0, "--read-ms", 40], neighbour=["--workers", 2, "--read-ms", 40],
        fix={"setting": "num_workers", "value": ""}, location="return DataLoader(", gain="either",
    ),
    # The device is done with its step twice before the host comes back.
    Case(
        "host-work", TRAIN, has=["--environment-ms", 80], neighbour=["--environment-ms", 5],
        fix={"setting": "own work", "value": ""}, gain="either",
    ),
    # 67 MB every five steps, against once.
    Case(
        "checkpoint-stall", TRAIN, has=["--save-every", 5], neighbour=HEALTHY,
        fix={"setting": "checkpoint", "value": ""}, location="torch.save(", gain="either",
    ),
    # Pinned, but on the stream that computes.
    Case(
        "blocking-copy", TRAIN, has=[], env={"DEVICE": SLOW_LINK}, neighbour=["--copy-stream"],
        fix={"setting": "copy stream"}, gain="either",
    ),
    Case(
        "allocator-churn", TRAIN, has=["--empty-cache"], neighbour=HEALTHY, env={"DEVICE": SLOW_ALLOCATION},
        fix={"setting": "torch.cuda.empty_cache", "value": "removed"}, location="torch.cuda.empty_cache()", gain="either",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=Case.name_of)
def test_torch_findings(case, zoo):
    zoo.check(case)


def test_healthy(zoo):
    check_healthy(zoo.run(TRAIN, HEALTHY))


@pytest.mark.parametrize(
    "larger, smaller, arguments, env",
    [
        ("dataloader-workers", "pin-memory", ["--workers", 0, "--read-ms", 40, "--no-pin"], {"DEVICE": SLOW_LINK}),
        # A sleep counts half, because it may have to stay. 80 ms (half of 43% of a step) came after the checkpoints on a disk that
        # took 0.14 s for each of them (24% of a step).
        ("host-work", "checkpoint-stall", ["--environment-ms", 160, "--save-every", 5], {}),
    ],
    ids=["workers-and-pinning", "host-work-and-checkpoint"],
)
def test_two_at_once(larger, smaller, arguments, env, zoo):
    job = zoo.run(TRAIN, arguments, env)
    found = [cause for cause in job.complaints if cause not in job.excused]
    assert found[0] == larger and smaller in found, job.say()
