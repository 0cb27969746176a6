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


def clicks(folder, count=24000, rows_a_group=400):
    """A log with more columns than a model wants, in small row groups, as a stream writer leaves them."""
    import pandas
    import pyarrow
    import pyarrow.parquet

    data = {f"i{number}": RANDOM.exponential(20, count).astype(np.float32) for number in range(13)}
    data |= {f"c{number}": RANDOM.integers(0, 1000, count) for number in range(8)}
    data |= {f"unused{number}": RANDOM.random(count) for number in range(12)}
    data["click"] = RANDOM.integers(0, 2, count, dtype=np.int8)
    pyarrow.parquet.write_table(pyarrow.Table.from_pandas(pandas.DataFrame(data)), folder / "clicks.parquet", row_group_size=rows_a_group, compression="snappy")


def ships(folder, images=400, others=160_000):
    """256 x 256 photos, and the run lengths of many more photos than lie here."""
    (folder / "images").mkdir()
    names = [f"{RANDOM.integers(1 << 32):08x}.jpg" for _ in range(images)]
    for name in names:
        (folder / "images" / name).write_bytes(jpeg(256))
    with open(folder / "ship_segmentations.csv", "w") as file:
        file.write("ImageId,EncodedPixels\n")
        for name in [*names, *names, *(f"{number:08x}.jpg" for number in RANDOM.integers(1 << 32, size=others))]:
            first, height = int(RANDOM.integers(1, 50_000)), int(RANDOM.integers(4, 16))
            file.write(f"{name},{' '.join(f'{first + 256 * column} {height}' for column in range(6))}\n")


def reviews(folder, shards=8, count=1024):
    import gzip

    random.seed(0)
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(8000)]
    for shard in range(shards):
        with gzip.open(folder / f"part-{shard:02}.jsonl.gz", "wt") as file:
            for number in range(count):
                text = " ".join(random.choices(words, k=random.randint(120, 220)))
                file.write(json.dumps({"review_id": f"R{shard}{number:05}", "stars": random.randint(1, 5), "helpful": random.randint(0, 40), "text": text}) + "\n")


def zipped(folder, count=1800):
    import zipfile

    with zipfile.ZipFile(folder / "signs.zip", "w", zipfile.ZIP_STORED) as archive:
        for number in range(count):
            archive.writestr(f"{number % 43:02}/{number:05}.jpg", jpeg(320))


def ad_records(folder, count=80_000):
    """TFRecords of one tf.train.Example for each impression."""
    import tensorflow as tf

    dense, sparse = RANDOM.random((count, 13)), RANDOM.integers(0, 1 << 24, (count, 26))
    with tf.io.TFRecordWriter(str(folder / "train.tfrecord")) as writer:
        for number in range(count):
            features = {f"i{column}": tf.train.Feature(float_list=tf.train.FloatList(value=[dense[number, column]])) for column in range(13)}
            features |= {f"c{column}": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%06x" % sparse[number, column]])) for column in range(26)}
            features["click"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[number % 2]))
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def tagged(folder, sentences=6000):
    """Words and their tags in the format of CoNLL: a word a line, an empty line after each sentence."""
    random.seed(0)
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(3000)]
    with open(folder / "train.conll", "w") as file:
        for _ in range(sentences):
            for _ in range(max(4, int(random.gauss(40, 12)))):
                file.write(f"{random.choice(words)}\t{random.choice(['O', 'O', 'O', 'B-PER', 'I-PER', 'B-LOC', 'I-LOC', 'B-ORG', 'I-ORG'])}\n")
            file.write("\n")


def power(folder, hours=9000):
    """Hourly consumption with the daily and weekly shapes of such curves."""
    hour = np.arange(hours)
    with open(folder / "power.csv", "w") as file:
        file.write("date," + ",".join(f"area{area}" for area in range(12)) + "\n")
        curves = [np.sin(hour / 24 * 2 * np.pi + area) + 0.4 * np.sin(hour / 168 * 2 * np.pi) + 0.1 * RANDOM.standard_normal(hours) for area in range(12)]
        for number, values in enumerate(np.stack(curves, 1)):
            file.write(f"{number}," + ",".join(f"{value:.4f}" for value in values) + "\n")


def seismograms(folder, stations=8, samples=200_000):
    """Three components of each station at 100 Hz, in counts of the digitiser."""
    noise = np.cumsum(
        RANDOM.normal(0, 30, (stations, 3, samples)), 2
    ) * 0.05 + RANDOM.normal(0, 200, (stations, 3, samples))
    arrivals = np.sort(RANDOM.integers(3000, samples - 6000, (stations, 120)), 1)
    for station in range(stations):
        for arrival in arrivals[station]:
            noise[station, :, arrival : arrival + 1500] += RANDOM.normal(
                0, 3000, (3, 1500)
            ) * np.exp(-np.arange(1500) / 300)
    np.save(folder / "counts.npy", noise.clip(-32000, 32000).astype(np.int16))
    np.save(folder / "arrivals.npy", arrivals)


def sessions(folder, count=12_000):
    """A shop's event log: one JSON object a line for each session, as the exporter wrote it."""
    random.seed(0)
    with open(folder / "sessions.jsonl", "w") as file:
        for number in range(count):
            began, events = random.randrange(1_700_000_000, 1_702_000_000), []
            for _ in range(random.randint(8, 40)):
                began += random.randint(1, 240)
                when = f"2023-11-{1 + began // 86400 % 28:02}T{began // 3600 % 24:02}:{began // 60 % 60:02}:{began % 60:02}+00:00"
                item = {
                    "sku": f"sku-{int(random.paretovariate(0.6)) % 5000:05}",
                    "category": f"c{random.randrange(60)}",
                    "price": round(random.expovariate(0.02), 2),
                    "currency": "EUR",
                }
                events.append(
                    {
                        "type": random.choice(
                            ["view", "view", "view", "cart", "purchase"]
                        ),
                        "at": when,
                        "item": item,
                        "page": {
                            "referrer": "search",
                            "position": random.randrange(50),
                        },
                    }
                )
            file.write(
                json.dumps(
                    {
                        "session": f"{number:08x}",
                        "device": "mobile",
                        "locale": "de-DE",
                        "events": events,
                    }
                )
                + "\n"
            )


def scenes(folder, count=6, size=96, bands=64):
    """Hyperspectral scenes with the classes of their pixels, compressed."""
    for number in range(count):
        classes = np.kron(
            RANDOM.integers(0, 9, (size // 8, size // 8)), np.ones((8, 8), int)
        )
        spectra = np.cumsum(RANDOM.normal(0, 60, (9, bands)), 1) + 2000
        cube = spectra[classes] + RANDOM.normal(0, 12, (size, size, bands))
        np.savez_compressed(
            folder / f"scene{number}.npz",
            cube=cube.astype(np.uint16),
            classes=classes.astype(np.uint8),
        )


def fields(folder, days=10, shape=(6, 721, 1440)):
    """Six variables on a global grid of a quarter of a degree, a file a day."""
    base = RANDOM.standard_normal(shape, dtype=np.float32)
    for day in range(days):
        np.save(folder / f"day_{day:03}.npy", np.roll(base, day * 9, 2) + np.float32(0.01 * day))
    np.savez(folder / "stats.npz", mean=base.mean((1, 2)), std=base.std((1, 2)))


def tickets(folder, count=1000):
    """Support tickets with what customers put into them: addresses, numbers, abbreviations, words run together."""
    random.seed(1)
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(1, 10))) for _ in range(20_000)]
    common = ["the", "and", "I", "don't", "can't", "it's", "on", "with", "please", "e.g.", "won't", "you", "is", "not", "a"]

    def piece():
        kind = random.random()
        if kind < 0.4:
            return random.choice(common)
        if kind < 0.85:
            return random.choice(words) + random.choice(["", "", "", ",", ".", "!", "?)", "..."])
        if kind < 0.93:
            return f"{random.choice(words)}-{random.randrange(10_000)}/{random.choice(words)}"
        address = f"https://shop.example/{random.choice(words)}?id={random.randrange(10**6)}"
        return random.choice([address, f"{random.choice(words)}@{random.choice(words)}.example", f"${random.random() * 100:.2f}"])

    with open(folder / "tickets.jsonl", "w") as file:
        for number in range(count):
            body = " ".join(piece() for _ in range(random.randint(40, 200)))
            queue = random.choice(["billing", "returns", "login", "delivery"])
            file.write(json.dumps({"id": number, "queue": queue, "subject": f"Order {number}", "body": body}) + "\n")


def birds(folder, count=320, rate=16000):
    """Recordings of two seconds, chirps in noise, in a folder for each species."""
    import wave

    time = np.arange(2 * rate) / rate
    for number in range(count):
        species = folder / f"species{number % 8}"
        species.mkdir(exist_ok=True)
        chirp = np.sin(2 * np.pi * (1500 + 500 * (number % 8)) * time + 40 * np.sin(2 * np.pi * (3 + number % 5) * time))
        samples = 6000 * chirp + 1500 * RANDOM.standard_normal(len(time))
        with wave.open(str(species / f"{number:04}.wav"), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            file.writeframes(samples.astype("<i2").tobytes())


def heartbeats(folder, count=2400, leads=3, samples=1250):
    """A datasets table: three leads of ten seconds one after the other in a column of floats, and a diagnosis."""
    from datasets import Dataset, Features, Sequence, Value

    beat = np.exp(-(((np.arange(samples) % 105) - 50) ** 2) / 18)
    signals = (beat * RANDOM.uniform(0.5, 2, (count, leads, 1)) + RANDOM.normal(0, 0.1, (count, leads, samples))).astype(np.float32)
    columns = Features({"signal": Sequence(Value("float32")), "label": Value("int64")})
    data = {"signal": list(signals.reshape(count, -1)), "label": RANDOM.integers(0, 5, count)}
    Dataset.from_dict(data, features=columns).save_to_disk(str(folder / "train"))


def strokes(folder, count=3000):
    """Pen strokes (two offsets and whether the pen is down) of forty writers; most are short, a few are long."""
    lengths = np.clip(RANDOM.lognormal(4.5, 0.5, count), 20, 420).astype(np.int32)
    lengths[0] = 420
    points = np.cumsum(RANDOM.normal(0, 0.02, (lengths.sum(), 3)), 0) % 1 - 0.5
    points[:, 2] = RANDOM.random(len(points)) > 0.05
    np.savez(folder / "strokes.npz", points=points.astype(np.float32), lengths=lengths, writers=RANDOM.integers(0, 40, count))


def sweeps(folder, afternoons=24, count=48, side=96, times=6):
    """TFRecords of radar images: cells that drift and fade over the sweeps, in half dBZ above -32."""
    import tensorflow as tf

    y, x = np.mgrid[:side, :side]
    for afternoon in range(afternoons):
        with tf.io.TFRecordWriter(str(folder / f"sweeps-{afternoon:03}.tfrecord")) as writer:
            for _ in range(count):
                image = np.zeros((side, side, times))
                for row, column, peak in zip(*RANDOM.uniform(0, side, (2, 4)), RANDOM.uniform(30, 70, 4)):
                    for time in range(times):
                        image[:, :, time] += peak * np.exp(-((y - row) ** 2 + (x - column - 2 * time) ** 2) / 90)
                levels = np.clip(2 * (image + RANDOM.normal(0, 1, image.shape) + 32), 0, 255).astype(np.uint8)
                features = {
                    "sweeps": tf.train.Feature(bytes_list=tf.train.BytesList(value=[levels.tobytes()])),
                    "hail": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(image.max() > 62)])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def scores(folder, composers=6, pieces=40):
    """Piano pieces as midicsv writes them: a line an event, notes that end by a velocity of zero, changes of tempo."""
    random.seed(2)
    for composer in range(composers):
        place = folder / f"composer{composer}"
        place.mkdir()
        scale = random.sample(range(12), 7)
        for piece in range(pieces):
            events = [(0, "Start_track", ""), (0, "Tempo", ", 500000")]
            tick = 0
            while tick < 22_000:
                if random.random() < 0.02:
                    events.append((tick, "Tempo", f", {random.randint(400_000, 700_000)}"))
                for pitch in random.sample(range(36, 96), random.randint(1, 5)):
                    pitch = pitch // 12 * 12 + scale[pitch % 7]
                    events.append((tick, "Note_on_c", f", 0, {pitch}, {random.randint(30, 110)}"))
                    events.append((tick + random.choice([60, 120, 240, 480]), "Note_on_c", f", 0, {pitch}, 0"))
                tick += random.choice([30, 60, 60, 120])
            events.sort(key=lambda event: event[0])
            lines = ["0, 0, Header, 1, 1, 480", *(f"1, {tick}, {name}{rest}" for tick, name, rest in events)]
            (place / f"op{piece:03}.csv").write_text("\n".join(lines) + "\n")


def spectra(folder, runs=3, count=640):
    """Tandem mass spectra in indexed mzML, as ProteoWizard's msconvert writes it (without most of its terms)."""
    import base64

    def array(name, bits, values):
        text = base64.b64encode(zlib.compress(values.tobytes())).decode()
        terms = "".join(f'<cvParam cvRef="MS" name="{term}" value=""/>' for term in (f"{bits}-bit float", "zlib compression", name))
        return f'<binaryDataArray encodedLength="{len(text)}">{terms}<binary>{text}</binary></binaryDataArray>'

    for run in range(runs):
        with (folder / f"run{run}.mzML").open("wb") as out:
            out.write(b'<?xml version="1.0"?>\n<indexedmzML><mzML><run><spectrumList>\n')
            offsets = []
            for number in range(count):
                offsets.append(out.tell())
                peaks, precursor = RANDOM.integers(500, 1500), RANDOM.uniform(300, 1500)
                mz, intensity = np.sort(RANDOM.uniform(90, 1700, peaks)), RANDOM.lognormal(6, 2, peaks).astype(np.float32)
                values = {"ms level": 2, "total ion current": intensity.sum(), "base peak m/z": mz[intensity.argmax()], "selected ion m/z": precursor, "charge state": 2, "collision energy": 27}
                terms = "".join(f'<cvParam cvRef="MS" name="{name}" value="{value}"/>' for name, value in values.items())
                arrays = array("m/z array", 64, mz) + array("intensity array", 32, intensity)
                out.write(f'<spectrum index="{number}" defaultArrayLength="{peaks}">{terms}<binaryDataArrayList>{arrays}</binaryDataArrayList></spectrum>\n'.encode())
            out.write(b"</spectrumList></run></mzML>\n")
            start = out.tell()
            index = "".join(f'<offset idRef="scan={number}">{offset}</offset>' for number, offset in enumerate(offsets))
            out.write(f"<indexList>{index}</indexList>\n<indexListOffset>{start}</indexListOffset>\n</indexedmzML>\n".encode())


if __name__ == "__main__":
    kind, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True)
    globals()[kind](folder)
