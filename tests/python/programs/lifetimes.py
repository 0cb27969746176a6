# SPDX-License-Identifier: Apache-2.0
"""Who keeps a loader's parts alive: reference counts of the iterator, of its queues and of their semaphores at some points
of a pass, and how and in which thread the iterator ends. A reference too many would let semaphores outlive the end of
multiprocessing, whose resource tracker then speaks of leaked ones. Argument: the start method, or "none" for no workers."""

import gc
import sys
import threading
import weakref

from feeders import join_feeders
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return index


def count(what, thing):
    print(what, sys.getrefcount(thing), sorted(type(r).__name__ for r in gc.get_referrers(thing)))


def report(when, iterator):
    print(when)
    count("iterator", iterator)
    count("dataset", iterator._dataset)
    for queue in getattr(iterator, "_index_queues", []) + [getattr(iterator, "_worker_result_queue", None)]:
        if queue is not None:
            count("queue", queue)
            count("semaphore", queue._rlock)
    if hasattr(iterator, "_workers_done_event"):
        count("event", iterator._workers_done_event)


def main(method):
    workers = {} if method == "none" else {"num_workers": 1, "multiprocessing_context": method}
    loader = DataLoader(Samples(), batch_size=4, **workers)
    count("loader", loader)
    for taken in (1, 3):  # an early break, and a whole pass
        iterator = iter(loader)
        died = []
        weakref.finalize(iterator, lambda: died.append(threading.current_thread().name))
        report("begun", iterator)
        for _ in range(taken):
            next(iterator)
        report("taken", iterator)
        if taken == 3:
            print("ended", next(iterator, None))
            report("ended", iterator)
        del iterator
        print("gone", died)
    count("loader", loader)


if __name__ == "__main__":
    gc.disable()  # what a reference cycle keeps would show
    main(sys.argv[1])
    join_feeders()
