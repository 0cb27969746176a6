# SPDX-License-Identifier: Apache-2.0
"""Uses PyTorch's DataLoader in one of many ways (the first argument) and logs what happened, one JSON object a line, to
the file named by the second: the dataset its samples, a batch its pinning, the consumer its next() calls. Sample i of
a loader is in batch i // BATCH of it, unless the way says otherwise. Knows nothing of gpuwatch."""

import contextlib
import gc
import json
import os
import signal
import sys
import tempfile
import threading
import time

import torch
from feeders import join_feeders
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    get_worker_info,
)

BATCH = 4
LOG = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def log(event, begin, **fields):
    words = {"event": event, "pid": os.getpid(), "thread": threading.get_native_id(), "begin": begin, "end": time.monotonic_ns()}
    os.write(LOG, (json.dumps(words | fields) + "\n").encode())


class Samples(Dataset):
    def __init__(self, count=32, name="a", seconds=0.001, broken=None, deadly=None):
        self.count, self.name, self.seconds, self.broken, self.deadly = count, name, seconds, broken, deadly

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        begin = time.monotonic_ns()
        if index == self.broken:
            raise ValueError(f"sample {index} is broken")
        if index == self.deadly and get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        log("sample", begin, name=self.name, index=index)
        return index


class Stream(IterableDataset):
    """Worker w of n gives 3 (w + 1) batches."""

    def __iter__(self):
        info = get_worker_info()
        worker = info.id if info else 0
        for index in range(BATCH * 3 * (worker + 1)):
            begin = time.monotonic_ns()
            time.sleep(0.001)
            log("sample", begin, name="stream", index=index, worker=worker)
            yield 1000 * worker + index


class Nested(Dataset):
    """A dataset whose sample is a pass over a loader of its own."""

    def __init__(self, workers=0):
        self.workers = workers

    def __len__(self):
        return 8

    def __getitem__(self, index):
        begin = time.monotonic_ns()
        total = sum(sum(batch) for batch in take(DataLoader(Samples(8, "inner"), BATCH, collate_fn=list), "inner"))
        log("sample", begin, name="outer", index=index)
        return total


class Files(Dataset):
    """Sample i is a file of 1000 (i + 1) bytes, read in two calls."""

    def __init__(self):
        self.directory = tempfile.mkdtemp()
        for index in range(16):
            with open(f"{self.directory}/{index}", "wb") as file:
                file.write(b"x" * 1000 * (index + 1))

    def __len__(self):
        return 16

    def __getitem__(self, index):
        begin = time.monotonic_ns()
        file = os.open(f"{self.directory}/{index}", os.O_RDONLY)
        data = os.read(file, 500)
        data += os.read(file, 10**6)
        os.close(file)
        log("sample", begin, name="files", index=index, bytes=len(data))
        return index


class Pinnable(list):
    def pin_memory(self):
        begin = time.monotonic_ns()
        time.sleep(0.002)
        log("pin", begin, batch=[int(sample) for sample in self])
        return self


def fake_accelerator():
    """The pin thread without a GPU: torch starts it, the batches pin themselves."""
    torch.accelerator.is_available = lambda: True
    torch.accelerator.current_accelerator = lambda *_: torch.device("cuda")
    torch.accelerator.current_device_index = lambda: 0
    torch.accelerator.set_device_index = lambda _: None


def step(iterator, name):
    """The next batch, or None at the end."""
    begin = time.monotonic_ns()
    try:
        batch = next(iterator)
    except StopIteration:
        log("end", begin, name=name)
        return None
    except Exception as error:
        log("error", begin, name=name, error=type(error).__name__)
        raise
    log("next", begin, name=name, batch=[int(sample) for sample in (batch if isinstance(batch, list) else [batch])])
    return batch


def take(loader, name, count=-1):
    iterator = iter(loader)
    while count != 0:
        batch = step(iterator, name)
        if batch is None:
            return
        yield batch
        count -= 1


def use(loader, name="a", count=-1):
    for _ in take(loader, name, count):
        time.sleep(0.001)


def make(workers=2, dataset=None, **options):
    return DataLoader(dataset or Samples(), BATCH, num_workers=workers, collate_fn=list, **options)


def zipped(workers=2):
    loader = make(workers)
    for first, second in zip(take(loader, "first"), take(loader, "second")):
        assert first == second


def iterated_within_itself():
    loader = make()
    for _ in take(loader, "outer", 3):
        use(loader, "inner", 2)


def kept_alive():
    loader = make()
    first = iter(loader)
    step(first, "first")
    use(loader, "second")
    while step(first, "first") is not None:
        pass


def early_break(**options):
    loader = make(**options)
    for _ in range(3):
        use(loader, count=3)
    use(loader)


def error_in_worker(workers=2):
    iterator = iter(make(workers, Samples(broken=5)))
    for _ in range(8):
        with contextlib.suppress(ValueError):
            step(iterator, "a")


def worker_killed():
    iterator = iter(make(2, Samples(deadly=17)))
    with contextlib.suppress(RuntimeError):
        while True:
            step(iterator, "a")
    use(make())  # as good as new


def several():
    train, test = make(2, Samples(32, "train")), make(1, Samples(8, "test"))
    for _ in range(2):
        for number, _ in enumerate(take(train, "train")):
            if number % 4 == 3:
                use(test, "test")


def nested(workers):
    use(make(workers, Nested()), "outer")


def short_lived():
    loader = make(0, Samples(8, seconds=0))
    for _ in range(300):
        iterator = iter(loader)
        step(iterator, "a")
        del iterator
        gc.collect(0)


def crowd():
    """More iterators at once than the table of them holds."""
    loader = make(0, Samples(8, seconds=0))
    iterators = [iter(loader) for _ in range(200)]
    for iterator in iterators:
        step(iterator, "a")


def persistent():
    loader = make(persistent_workers=True)
    for _ in range(5):
        use(loader)


def pinned(workers, **options):
    fake_accelerator()
    loader = DataLoader(Samples(), BATCH, num_workers=workers, collate_fn=Pinnable, pin_memory=True, **options)
    for count in (3, -1, -1):
        use(loader, count=count)


def pinned_error():
    fake_accelerator()
    iterator = iter(DataLoader(Samples(broken=5), BATCH, num_workers=2, collate_fn=Pinnable, pin_memory=True))
    for _ in range(8):
        with contextlib.suppress(ValueError):
            step(iterator, "a")


def pinned_stream():
    fake_accelerator()
    use(DataLoader(Stream(), BATCH, num_workers=2, collate_fn=Pinnable, pin_memory=True))


def without_batches(workers):
    use(DataLoader(Samples(12), None, num_workers=workers))


def own_batches():
    use(DataLoader(Samples(), batch_sampler=BatchSampler(SequentialSampler(range(32)), BATCH, False), num_workers=2, collate_fn=list))


def init(worker):
    log("init", time.monotonic_ns(), worker=worker)


def not_forked(method):
    use(make(multiprocessing_context=method, worker_init_fn=init))
    join_feeders()


def in_threads():
    """Two consumers at once, each with a loader of its own."""
    threads = [threading.Thread(target=use, args=(make(1, Samples(32, name)), name)) for name in "ab"]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


WAYS = {
    "inline": lambda: use(make(0)),
    "workers": lambda: use(make()),
    "zipped": zipped,
    "zipped inline": lambda: zipped(0),
    "iterated within itself": iterated_within_itself,
    "kept alive": kept_alive,
    "early break": early_break,
    "early break, persistent": lambda: early_break(persistent_workers=True),
    "error in worker": error_in_worker,
    "error inline": lambda: error_in_worker(0),
    "worker killed": worker_killed,
    "several loaders": several,
    "nested inline": lambda: nested(0),
    "nested in worker": lambda: nested(2),
    "short-lived": short_lived,
    "crowd": crowd,
    "persistent": persistent,
    "out of order": lambda: use(make(in_order=False)),
    "uneven stream": lambda: use(make(dataset=Stream())),
    "stream inline": lambda: use(make(0, Stream())),
    "without batches": lambda: without_batches(2),
    "without batches, inline": lambda: without_batches(0),
    "own batches": own_batches,
    "files": lambda: use(make(dataset=Files())),
    "wrapped dataset": lambda: use(make(dataset=Subset(ConcatDataset([Samples(), Samples()]), range(32)))),
    "timeout": lambda: use(make(timeout=30)),
    "fork": lambda: use(make(multiprocessing_context="fork", worker_init_fn=init)),
    "spawn": lambda: not_forked("spawn"),
    "forkserver": lambda: not_forked("forkserver"),
    "in threads": in_threads,
    "pinned": lambda: pinned(2),
    "pinned inline": lambda: pinned(0),
    "pinned, persistent": lambda: pinned(2, persistent_workers=True),
    "pinned, error": pinned_error,
    "pinned stream": pinned_stream,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    WAYS[sys.argv[1]]()
