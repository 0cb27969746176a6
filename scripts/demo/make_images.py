#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the demo's data set once: real JPEG files of coloured shapes, one folder for each class.

Sizes are those of ordinary photographs reduced for the web. The noisy background matters: it makes the files as large,
and their decoding as slow, as photographs of that size are.
"""

import argparse
import random
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SIZE = (640, 480)
CLASSES = {
    "red-circle": ((200, 50, 50), "circle"),
    "green-square": ((50, 170, 70), "square"),
    "blue-triangle": ((60, 80, 210), "triangle"),
    "yellow-ring": ((220, 200, 60), "ring"),
}


def background(rng):
    """Soft clouds plus grain, as a camera would see."""
    clouds = rng.integers(60, 200, (6, 8, 3), dtype=np.uint8)
    canvas = np.asarray(Image.fromarray(clouds).resize(SIZE, Image.Resampling.BICUBIC), dtype=np.int16)
    grain = rng.normal(0, 12, canvas.shape)
    return Image.fromarray(np.clip(canvas + grain, 0, 255).astype(np.uint8))


def draw_shape(image, colour, shape):
    draw = ImageDraw.Draw(image)
    radius = random.randint(80, 180)
    x, y = (random.randint(radius, side - radius) for side in SIZE)
    box = (x - radius, y - radius, x + radius, y + radius)
    if shape == "circle":
        draw.ellipse(box, fill=colour)
    elif shape == "square":
        draw.rectangle(box, fill=colour)
    elif shape == "triangle":
        draw.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=colour)
    else:
        draw.ellipse(box, outline=colour, width=radius // 3)


def make_images(folder, count):
    """Writes `count` images below `folder`, unless they are there already."""
    done = folder / f"complete-{count}"
    if done.exists():
        return False
    random.seed(1)
    rng = np.random.default_rng(1)
    for number in range(count):
        name, (colour, shape) = list(CLASSES.items())[number % len(CLASSES)]
        image = background(rng)
        draw_shape(image, colour, shape)
        path = folder / name / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=90)
    done.touch()
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=512)
    arguments = parser.parse_args()
    make_images(arguments.folder, arguments.count)
