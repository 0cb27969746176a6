# SPDX-License-Identifier: Apache-2.0
class _BaseDatasetFetcher:
    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.samples = iter(dataset)

    def fetch(self, possibly_batched_index):
        batch = [sample for sample, _ in zip(self.samples, possibly_batched_index)]
        if not batch:
            raise StopIteration
        return self.collate_fn(batch)


class _MapDatasetFetcher(_BaseDatasetFetcher):
    def fetch(self, possibly_batched_index):
        return self.collate_fn([self.dataset[index] for index in possibly_batched_index])
