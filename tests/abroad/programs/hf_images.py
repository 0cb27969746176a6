# SPDX-License-Identifier: Apache-2.0
"""datasets: an image folder with the Image feature, decoded by with_transform when an example is read."""

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--photos", required=True)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--materialize", action="store_true", help="map() once to small arrays, before training")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=110)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_HOME"] = folder
        from datasets import Dataset, Image

        files = sorted(str(file) for file in Path(args.photos).glob("*/*.jpg"))
        photos = Dataset.from_dict({"image": files, "label": [index % 10 for index in range(len(files))]}).cast_column("image", Image())

        def small(batch):
            return {"pixels": [np.asarray(image.convert("RGB").resize((48, 48)), np.float32).ravel() / 255 for image in batch["image"]], "label": batch["label"]}

        if args.materialize:
            photos = photos.map(small, batched=True, remove_columns=["image"], cache_file_name=f"{folder}/small.arrow").with_format("torch")
        else:
            photos = photos.with_transform(lambda batch: {name: torch.as_tensor(np.array(values)) for name, values in small(batch).items()})
        loader = DataLoader(photos, args.batch_size, shuffle=True, num_workers=args.num_workers, drop_last=True, persistent_workers=args.num_workers > 0)
        model = nn.Sequential(nn.Linear(48 * 48 * 3, 64), nn.ReLU(), nn.Linear(64, 10))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        meter, step = Meter(len(loader), args.batch_size), 0
        while step < args.steps:
            for batch in loader:
                loss = F.cross_entropy(model(batch["pixels"]), batch["label"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 25 == 0:
                    print(step, loss.item())
                meter.step()
                step += 1
        meter.print()


if __name__ == "__main__":
    main()
