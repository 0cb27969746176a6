# SPDX-License-Identifier: Apache-2.0
import traceback


class WorkerInfo:
    def __init__(self, id):
        self.id = id


class _ResumeIteration:
    pass


class _IterableDatasetStopIteration:
    def __init__(self, worker_id):
        self.worker_id = worker_id


class WorkerError:
    def __init__(self):
        self.text = traceback.format_exc()


_worker_info = None


def _worker_loop(make_fetcher, index_queue, data_queue, worker_id):
    global _worker_info
    _worker_info = WorkerInfo(worker_id)
    fetcher = make_fetcher()
    while True:
        task = index_queue.get()
        if task is None:
            return
        if isinstance(task, _ResumeIteration):
            data_queue.put((task, None))
            fetcher = make_fetcher()
            continue
        number, index = task
        try:
            data = fetcher.fetch(index)
        except StopIteration:
            data = _IterableDatasetStopIteration(worker_id)
        except Exception:
            data = WorkerError()
        data_queue.put((number, data))
