# SPDX-License-Identifier: Apache-2.0
import functools
import itertools
import multiprocessing
import queue

from . import _utils


def make_fetcher(dataset, collate_fn):
    kind = "_MapDatasetFetcher" if hasattr(dataset, "__getitem__") else "_IterableDatasetFetcher"
    return getattr(_utils.fetch, kind)(dataset, True, collate_fn, False)


class DataLoader:
    def __init__(
        self, dataset, batch_size=1, num_workers=0, collate_fn=list, prefetch_factor=None,
        persistent_workers=False, multiprocessing_context=None,
    ):  # fmt: skip
        self.dataset = dataset
        self.batch_size = batch_size
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.prefetch_factor = prefetch_factor or (2 if num_workers else None)
        self.persistent_workers = persistent_workers
        self.multiprocessing_context = (
            multiprocessing.get_context(multiprocessing_context) if multiprocessing_context else None
        )
        self.pin_memory = self.drop_last = False
        self.batch_sampler = self.sampler = None
        self._dataset_kind = 0 if hasattr(dataset, "__getitem__") else 1
        self._iterator = None
        self.check_worker_number_rationality()

    def check_worker_number_rationality(self):
        pass

    def indices(self):
        if self._dataset_kind == 1:
            return itertools.repeat(range(self.batch_size))
        count = len(self.dataset)
        return iter(
            [range(at, min(at + self.batch_size, count)) for at in range(0, count, self.batch_size)],
        )

    def __iter__(self):
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        if self._iterator is None:
            self.check_worker_number_rationality()
        if not self.persistent_workers:
            return _MultiProcessingDataLoaderIter(self)
        if self._iterator is None:
            self._iterator = _MultiProcessingDataLoaderIter(self)
        else:
            self._iterator._reset(self)
        return self._iterator


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._indices = loader.indices()

    def __iter__(self):
        return self

    def _next_index(self):
        return next(self._indices)

    def __next__(self):
        return self._next_data()


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        self._fetcher = make_fetcher(loader.dataset, loader.collate_fn)

    def _next_data(self):
        return self._fetcher.fetch(self._next_index())


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        self._num_workers, self._prefetch_factor = loader.num_workers, loader.prefetch_factor
        self._persistent_workers = loader.persistent_workers
        context = loader.multiprocessing_context or multiprocessing
        self._data_queue = context.Queue()
        self._index_queues = [context.Queue() for _ in range(loader.num_workers)]
        make = functools.partial(make_fetcher, loader.dataset, loader.collate_fn)
        self._workers = []
        for number, index_queue in enumerate(self._index_queues):
            worker = context.Process(
                target=_utils.worker._worker_loop, args=(make, index_queue, self._data_queue, number), daemon=True
            )
            worker.start()
            self._workers.append(worker)
        self._reset(loader, first_iter=True)

    def _reset(self, loader, first_iter=False):
        self._indices = loader.indices()
        self._send_idx = self._rcvd_idx = 0
        self._task_info = {}
        self._active = set(range(self._num_workers))
        self._cycle = itertools.cycle(range(self._num_workers))
        if not first_iter:
            for index_queue in self._index_queues:
                index_queue.put(_utils.worker._ResumeIteration())
            for _ in self._index_queues:
                self._get_data()
        for _ in range(self._num_workers * self._prefetch_factor):
            self._try_put_index()

    def _try_put_index(self):
        try:
            index = self._next_index()
        except StopIteration:
            return
        worker = next((number for number in itertools.islice(self._cycle, self._num_workers) if number in self._active), None)
        if worker is None:
            return
        self._index_queues[worker].put((self._send_idx, index))
        self._task_info[self._send_idx] = (worker,)
        self._send_idx += 1

    def _try_get_data(self, timeout=5.0):
        try:
            return True, self._data_queue.get(timeout=timeout)
        except queue.Empty:
            return False, None

    def _get_data(self):
        while True:
            success, data = self._try_get_data()
            if success:
                return data

    def _next_data(self):
        while True:
            while self._rcvd_idx < self._send_idx and self._rcvd_idx not in self._task_info:
                self._rcvd_idx += 1
            if self._rcvd_idx == self._send_idx:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            info = self._task_info[self._rcvd_idx]
            if len(info) == 1:
                number, data = self._get_data()
                if isinstance(data, _utils.worker._IterableDatasetStopIteration):
                    self._active.discard(data.worker_id)
                    del self._task_info[number]
                    self._try_put_index()
                else:
                    self._task_info[number] += (data,)
                continue
            del self._task_info[self._rcvd_idx]
            self._rcvd_idx += 1
            self._try_put_index()
            if isinstance(info[1], _utils.worker.WorkerError):
                raise RuntimeError(info[1].text)
            return info[1]

    def _shutdown_workers(self):
        for index_queue in self._index_queues:
            index_queue.put(None)
        for worker in self._workers:
            worker.join()
