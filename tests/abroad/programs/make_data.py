# SPDX-License-Identifier: Apache-2.0
"""Makes the data sets that the programs read: make_data.py KIND FOLDER. Always the same bytes."""

import io
import json
import random
import sqlite3
import sys
import tarfile
import zlib
from pathlib import Path

import numpy as np

RANDOM = np.random.default_rng(0)


def picture(size):
    """Smooth enough to compress as photographs do."""
    from PIL import Image

    coarse = RANDOM.integers(0, 255, (size // 8, size // 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC)


def jpeg(size):
    out = io.BytesIO()
    picture(size).save(out, "JPEG", quality=90)
    return out.getvalue()


def tokens(folder):
    for split, count in (("train", 1_000_000), ("val", 100_000)):
        RANDOM.integers(0, 128, count, dtype=np.uint16).tofile(folder / f"{split}.bin")


def photos(folder, size=320, count=600):
    for number in range(count):
        place = folder / f"class{number % 10}"
        place.mkdir(exist_ok=True)
        (place / f"{number:05}.jpg").write_bytes(jpeg(size))


def records(folder, count=4000):
    """A small file a sample, and the same in one file."""
    data = RANDOM.random((count, 512), dtype=np.float32)
    (folder / "files").mkdir()
    for number, row in enumerate(data):
        np.save(folder / "files" / f"{number:05}.npy", row)
    np.save(folder / "packed.npy", data)


def objects(folder, count=256):
    for number in range(count):
        (folder / f"{number:05}.bin").write_bytes(RANDOM.bytes(16384))


def sounds(folder, count=400):
    import soundfile

    for number in range(count):
        soundfile.write(folder / f"{number:04}.flac", RANDOM.normal(0, 0.1, 32000).astype(np.float32), 16000)


def rows(folder, count=20000):
    connection = sqlite3.connect(folder / "rows.db")
    connection.execute("create table samples (id integer primary key, label integer, features blob)")
    blobs = ((number, number % 10, zlib.compress(np.round(RANDOM.random(2048), 2).astype(np.float32).tobytes())) for number in range(count))
    connection.executemany("insert into samples values (?, ?, ?)", blobs)
    connection.commit()


def tars(folder, shards=8, samples=100):
    for shard in range(shards):
        with tarfile.open(folder / f"train-{shard:04}.tar", "w") as tar:
            for number in range(samples):
                for name, data in (("jpg", jpeg(192)), ("cls", str(number % 10).encode())):
                    entry = tarfile.TarInfo(f"{shard:04}{number:04}.{name}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))


def mds(folder, count=3000):
    import no_vision_kernels  # noqa: F401
    from streaming import MDSWriter

    with MDSWriter(out=str(folder), columns={"x": "ndarray:float32:1024", "y": "int"}, size_limit=1 << 21) as writer:
        for number in range(count):
            writer.write({"x": RANDOM.random(1024, dtype=np.float32), "y": number % 10})


def sentences(folder, count=6000):
    random.seed(0)
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(4000)]
    with open(folder / "train.jsonl", "w") as file:
        for number in range(count):
            length = 40 + int(random.expovariate(1 / 200))
            file.write(json.dumps({"text": " ".join(random.choices(words, k=length)), "label": number % 2}) + "\n")


def table(folder, count=20000):
    import pandas

    data = {f"f{column}": RANDOM.random(count) for column in range(40)}
    data["city"], data["target"] = RANDOM.integers(0, 50, count), RANDOM.integers(0, 2, count)
    pandas.DataFrame(data).to_csv(folder / "train.csv", index=False)


def volumes(folder, count=64):
    import h5py

    with h5py.File(folder / "volumes.h5", "w") as file:
        data = (RANDOM.random((count, 64, 64, 64)) > 0.7).astype(np.float32)
        file.create_dataset("whole", data=data, chunks=(4, 64, 64, 64), compression="gzip", compression_opts=4)
        file.create_dataset("flat", data=data, chunks=(1, 64, 64, 64))


def features(folder, count=5000):
    import lmdb

    store = lmdb.open(str(folder / "lmdb"), map_size=1 << 30)
    with store.begin(write=True) as transaction:
        for number in range(count):
            transaction.put(f"{number:06}".encode(), RANDOM.random(1024, dtype=np.float32).tobytes())


if __name__ == "__main__":
    kind, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True)
    globals()[kind](folder)
