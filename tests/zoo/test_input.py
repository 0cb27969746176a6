# SPDX-License-Identifier: Apache-2.0
"""The zoo's rows about the input pipeline."""

import json
import socketserver
import threading
import time

import pytest
from slow import SlowMount
from zoo_case import Case, check_healthy

SLOW, FILES, CPU, TEXTS, ARRAYS = "slow_dataset.py", "file_dataset.py", "cpu_dataset.py", "texts.py", "float_arrays.py"
TUNABLES = ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1073741824:glibc.malloc.mmap_threshold=1073741824")
MANY_SMALL, FEW_LARGE = (160, 16384), (4, 40 * 16384)  # the same samples, as a file each and as parts of four
FORTY_TO_SIXTY = ["--service-ms", 40, "--train-ms", 60, "--batches", 30]
SEVENTY_FIVE_TO_FORTY = ["--service-ms", 75, "--train-ms", 40, "--batches", 60]
EVERY_EPOCH_ANEW = ["--workers", 2, "--service-ms", 4, "--batches", 6, "--epochs", 8, "--train-ms", 80]
UNEVEN = ["--workers", 3, "--service-ms", 45, "--slow-ms", 400, "--slow-every", 9, "--train-ms", 30, "--batches", 72]
SLOW_COLLATE = ["--workers", 1, "--train-ms", 120, "--batches", 24]
FROM_FILES = ["{files}", "--workers", 1, "--train-ms", 60]
TWO_EPOCHS = [*FROM_FILES, "--epochs", 2]  # the start of the workers is the smaller part of a mean step

# Handing a batch over costs 0.5 ms on a quiet machine and 5 on a busy one. Steps are long against both, and what the
# batches cost is sleep. The runs of a case go side by side, under the same load: a busy machine changes neither what is
# concluded nor whether a promise is kept.
CASES = [
    # Each worker's library computes on four threads, beside another such worker on the machine's cores.
    # The neighbour's arrays are made and freed in each batch: with memory that malloc keeps it took 59.2 ms a step instead of
    # 64.4 (five pairs of runs, by turns), which the rule says of it on days when a fault takes long enough.
    Case(
        "dataloader-oversubscribed", CPU, has=["--threads", 4, "--augment-times", 8], neighbour=["--threads", 1, "--augment-times", 8],
        fix={"setting": "OMP_NUM_THREADS", "value": "1"}, location="loader = DataLoader(", gain="ceiling",
        may_on_neighbour=("input-decode", "cpu-undersized", "dataloader-workers", "page-faults"),
    ),
    # Four workers for each CPU, for samples that are in memory, started again for each epoch.
    Case(
        "dataloader-oversubscribed", "little_work.py", has=[], neighbour=["--workers-of-cpu", 0, "--epochs", 40],
        fix={"setting": "num_workers", "value": "0"}, location="loader = DataLoader(", gain="either", name="little-work", is_crowded=True,
        may_on_neighbour=("input-decode", "collate-cost", "intra-op-threads"),
    ),
    # One file for two workers: one of them reads it.
    Case(
        "dataloader-workers", SLOW, together=True, has=["--parts", 1, "--workers", 2, "--service-ms", 60, "--train-ms", 40, "--batches", 60],
        neighbour=["--parts", 2, "--workers", 2, "--service-ms", 60, "--train-ms", 40, "--batches", 60],
        applied=["--parts", 2, "--workers", 2, "--service-ms", 60, "--train-ms", 40, "--batches", 60],
        fix={"setting": "parts"}, location="loader = DataLoader(", name="one-file",
    ),
    # Three for two: one of them reads two. A third worker has one as well, and waiting for storage needs no core.
    Case(
        "dataloader-workers", SLOW, together=True, has=["--parts", 3, "--workers", 2, *SEVENTY_FIVE_TO_FORTY], neighbour=["--parts", 4, "--workers", 2, *SEVENTY_FIVE_TO_FORTY],
        applied=["--parts", 3, "--workers", 3, *SEVENTY_FIVE_TO_FORTY], fix={"setting": "num_workers", "value": "3"}, location="loader = DataLoader(", name="three-files",
    ),
    # 40 ms to make a batch beside 60 ms to use it: a worker hides it. The loader of the evaluation is not the one to change.
    Case(
        "dataloader-workers", SLOW, together=True, has=["--workers", 0, *FORTY_TO_SIXTY, "--validate"], neighbour=["--workers", 1, *FORTY_TO_SIXTY],
        fix={"setting": "num_workers", "value": ""}, location="loader = DataLoader(",
    ),
    # Ten quick batches, then one that takes as long as five steps: the mean is quick enough, the buffer too short for it.
    Case(
        "dataloader-prefetch", SLOW, together=True, has=["--workers", 1, "--prefetch", 1, "--service-ms", 10, "--slow-ms", 250, "--slow-every", 12, "--train-ms", 40],
        neighbour=["--workers", 1, "--prefetch", 16, "--service-ms", 10, "--slow-ms", 250, "--slow-every", 12, "--train-ms", 80, "--batches", 40],
        fix={"setting": "prefetch_factor", "value": ""}, location="loader = DataLoader(",
        behind=("dataloader-workers",), why_behind="a second worker doubles the buffer as well",
    ),
    # Epochs of six batches: workers start again before they have made much.
    Case(
        "dataloader-persistent-workers", SLOW, together=True, has=EVERY_EPOCH_ANEW, neighbour=[*EVERY_EPOCH_ANEW, "--persistent"],
        applied=[*EVERY_EPOCH_ANEW, "--persistent"], fix={"setting": "persistent_workers", "value": "True"}, location="loader = DataLoader(",
    ),
    # Every ninth batch takes nine times as long, and two other workers have theirs ready meanwhile.
    Case(
        "dataloader-head-of-line", SLOW, together=True, has=UNEVEN, neighbour=["--workers", 3, "--service-ms", 150, "--train-ms", 30, "--batches", 30],
        applied=[*UNEVEN, "--out-of-order"], fix={"setting": "in_order", "value": "False"}, location="loader = DataLoader(",
        behind=("dataloader-workers", "dataloader-prefetch"), why_behind="workers that sleep are had for nothing, and each brings a longer buffer",
        may_on_neighbour=("dataloader-workers",),
    ),
    # 320 ms to make a batch beside 120 to use it, most of them in collate_fn: more than two workers can hide.
    Case(
        "collate-cost", SLOW, together=True, has=[*SLOW_COLLATE, "--collate-ms", 300], neighbour=[*SLOW_COLLATE, "--service-ms", 320],
        applied=SLOW_COLLATE, fix={"setting": "collate_fn"}, location="time.sleep(self.milliseconds", name="collate",
        behind=("dataloader-workers",), why_behind="two workers collate beside each other", on_neighbour=("dataloader-workers",),
    ),
    # Lists of numbers are pickled, sent through a pipe and made anew.
    Case(
        "collate-cost", SLOW, together=True, has=["--workers", 1, "--service-ms", 5, "--list-length", 100_000, "--batches", 100],
        neighbour=["--workers", 1, "--service-ms", 5, "--train-ms", 60, "--batches", 30], gain="ceiling",
        fix={"setting": "batch"}, location="loader = DataLoader(", name="hand-over",
        behind=("dataloader-workers", "dataloader-oversubscribed"), why_behind="two workers pickle beside each other, none need not",
    ),
    # A tensor for each column of a table, each in a file of its own in shared memory.
    Case(
        "collate-cost", SLOW, together=True, has=["--workers", 1, "--service-ms", 2, "--columns", 200, "--train-ms", 5, "--batches", 100],
        neighbour=["--workers", 1, "--service-ms", 2, "--train-ms", 60, "--batches", 30], gain="ceiling",
        applied=["--workers", 1, "--service-ms", 2, "--train-ms", 5, "--batches", 100],
        fix={"setting": "tensors of a batch", "value": "1"}, location="loader = DataLoader(", name="columns",
        behind=("dataloader-workers", "dataloader-oversubscribed"), why_behind="two workers send beside each other, none need not",
    ),
    # Both workers compute all the time; sleeping as long is no work for a CPU.
    Case(
        "input-decode", CPU, has=["--decode-ms", 10], neighbour=["--decode-ms", 1, "--train-ms", 60, "--batches", 30],
        fix={"setting": "transforms", "location": ""}, gain="ceiling",
        behind=("dataloader-oversubscribed", "dataloader-workers", "cpu-undersized"),
        why_behind="more cores, or the GPU, compute the same sooner, and what that gains is predicted",
    ),
    # Four reads of 35 ms for a batch, from large files: more than two workers can hide.
    Case(
        "input-storage", FILES, together=True, has=TWO_EPOCHS, neighbour=FROM_FILES, applied=TWO_EPOCHS,
        files=FEW_LARGE, storage={"read_us": 35000}, neighbour_storage=None, applied_storage={"read_us": 3500},
        fix={"setting": "storage", "value": ""}, location="def __getitem__", gain="ceiling",
        behind=("dataloader-workers",), why_behind="reads of more workers overlap, if the storage lets them",
    ),
    # The same from a file for each sample: 50 ms to open it, no time to read it.
    Case(
        "input-small-files", FILES, together=True, has=FROM_FILES, neighbour=FROM_FILES,
        files=MANY_SMALL, storage={"open_us": 50000}, neighbour_files=FEW_LARGE, neighbour_storage={"read_us": 50000},
        fix={"setting": "shards", "value": "16384"}, location="def __getitem__", gain="ceiling",
        behind=("dataloader-workers",), why_behind="opens of two workers overlap",
        on_neighbour=("input-storage",), may_on_neighbour=("dataloader-workers",),
    ),
    # Two epochs over 2.5 MiB that the machine could keep.
    Case(
        "input-cacheable", FILES, together=True, has=[*FROM_FILES, "--epochs", 2], neighbour=[*FROM_FILES, "--epochs", 2, "--cache"],
        files=FEW_LARGE, storage={"read_us": 50000}, neighbour_storage={"read_us": 5000},
        fix={"setting": "cache", "value": ""}, location="def __getitem__", gain="ceiling",
        behind=("dataloader-workers", "input-storage"), why_behind="faster storage is worth as much",
    ),
    # One text in eight is long, so that nearly every batch has one. The same texts in the order of their length have
    # next to no padding; nor have texts that are all long.
    Case(
        "padding-waste", TEXTS, together=True, has=[], neighbour=["--by-length", "--element-us", 120],
        fix={"setting": "batch_sampler", "value": "by length"}, location="loader = DataLoader(", gain="ceiling", name="uneven",
    ),
    Case(
        "padding-waste", TEXTS, together=True, has=["--pad-to", 400, "--as-dict", "--by-length"], neighbour=["--equal", 250, "--as-dict"],
        fix={"setting": "padding", "value": "longest"}, location="loader = DataLoader(", gain="ceiling", name="fixed",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=Case.name_of)
def test_input(case, zoo):
    zoo.check(case)


@pytest.mark.parametrize("arguments", [[], ["--pad-to", 400, "--as-dict", "--by-length"], ["--workers", 0]], ids=["uneven", "fixed", "no-workers"])
def test_padding_is_what_the_job_counted(arguments, zoo):
    job = zoo.run(TEXTS, arguments)
    logged = json.loads(job.injected.stdout.splitlines()[-2])
    evidence = {row["what"]: row["value"] for row in job.find("padding-waste")["evidence"]}
    assert evidence["padding"] == pytest.approx(100 * (1 - logged["elements"] / logged["padded"]), rel=1e-9), job.say()
    assert evidence["mean sample"] == pytest.approx(logged["elements"] / 320, rel=1e-9), job.say()


def counted_by_kernel(job):
    return json.loads(job.injected.stdout.splitlines()[-2])


def test_page_faults(zoo):
    """Workers whose malloc gives memory back, and that of the setting which the finding names. Where faults are cheap (no
    virtual machine), there is nothing to find."""
    before = zoo.run(ARRAYS, ["--batches", 160])
    after = zoo.run(ARRAYS, ["--batches", 160], env=dict([TUNABLES]))
    had, has = counted_by_kernel(before), counted_by_kernel(after)
    assert has["faults"] < 0.4 * had["faults"], f"malloc did not keep its memory: {had}, {has}"
    assert not after.find("page-faults"), after.say()
    found = before.find("page-faults")
    spared_ms = had["system_ms"] - has["system_ms"]
    if not found:
        assert spared_ms < 0.2 * had["cpu_ms"], f"faults took {spared_ms:.1f} of {had['cpu_ms']:.1f} ms\n{before.say()}"
        return
    evidence = {row["what"]: row["value"] for row in found["evidence"]}
    # Those of the worker's own start are in the kernel's count as well.
    assert 0.7 * had["faults"] < evidence["page faults"] < 1.1 * had["faults"], f"{had}\n{before.say()}"
    said_ms = (evidence["page faults"] - 1.1 * evidence["pages of a batch"]) * evidence["a page fault"] / 1e3
    assert 0.6 * spared_ms < said_ms < 1.7 * spared_ms, f"{had}, {has}\n{before.say()}"
    assert (found["fix"]["setting"], found["fix"]["value"]) == TUNABLES


class SlowServer(socketserver.BaseRequestHandler):
    """Answers each request of four bytes with 64, after 50 ms."""

    def handle(self):
        while self.request.recv(4):
            time.sleep(0.05)
            self.request.sendall(bytes(64))


@pytest.fixture
def server():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), SlowServer) as it:
        it.daemon_threads = True
        threading.Thread(target=it.serve_forever, daemon=True).start()
        yield it.server_address[1]
        it.shutdown()


def test_remote_storage(zoo, server):
    zoo.check(
        Case(
            "input-remote-storage", FILES, together=True, has=[str(server), *FROM_FILES[1:]], neighbour=FROM_FILES,
            neighbour_files=FEW_LARGE, neighbour_storage={"read_us": 50000},
            fix={"setting": "storage", "value": "local"}, location="def __getitem__", gain="ceiling",
            behind=("dataloader-workers",), why_behind="two workers wait beside each other",
            on_neighbour=("input-storage",), may_on_neighbour=("dataloader-workers",),
        )
    )  # fmt: skip


@pytest.mark.skipif(bool(SlowMount.unavailable()), reason=SlowMount.unavailable() or "")
def test_remote_mount(zoo, build, tmp_path):
    """The same slow files on a file system of another machine's kind, and on one of this machine's."""
    read_ahead = 128 * 1024  # a sample is what the kernel reads at once
    files, delay = zoo.made((4, 40 * read_ahead)), {"read_us": 100000}
    remote = SlowMount(build, files, tmp_path / "remote", type="fuse.sshfs", **delay)
    local = SlowMount(build, files, tmp_path / "local", type="fuse.squashfuse", **delay)
    arguments = ["--sample-bytes", read_ahead, *FROM_FILES[1:]]
    with remote, local:
        zoo.check(
            Case(
                "input-remote-storage", FILES, together=True, has=[remote.point, *arguments], neighbour=[local.point, *arguments],
                fix={"setting": "storage", "value": "local"}, location="def __getitem__", gain="ceiling",
                behind=("dataloader-workers",), why_behind="two workers wait beside each other",
                on_neighbour=("input-storage",), may_on_neighbour=("dataloader-workers",),
            )
        )  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ["--workers", 2, "--service-ms", 5, "--train-ms", 100, "--batches", 30],
        ["--workers", 1, "--service-ms", 5, "--train-ms", 100, "--batches", 30, "--validate"],
        ["--workers", 0, "--service-ms", 0.2, "--train-ms", 100, "--batches", 30],
    ],
    ids=["workers", "validation", "no-workers"],
)
def test_healthy(arguments, zoo):
    """Nothing is wrong, in several shapes: nothing above info. Handing a batch over costs 1 to 3 ms: steps are long against it."""
    check_healthy(zoo.run(SLOW, arguments))
