#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the demo's data set once: JPEG files of colored shapes, one folder for each class.

The images have the size of photographs on the web. The noisy background makes the files as large, and their decoding as
slow, as photographs of that size.
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
    """Soft clouds and grain, which compress like a photograph."""
    clouds = rng.integers(60, 200, (6, 8, 3), dtype=np.uint8)
    canvas = np.asarray(Image.fromarray(clouds).resize(SIZE, Image.Resampling.BICUBIC), dtype=np.int16)
    grain = rng.normal(0, 12, canvas.shape)
    return Image.fromarray(np.clip(canvas + grain, 0, 255).astype(np.uint8))


def draw_shape(image, color, shape):
    draw = ImageDraw.Draw(image)
    radius = random.randint(80, 180)
    x, y = (random.randint(radius, side - radius) for side in SIZE)
    box = (x - radius, y - radius, x + radius, y + radius)
    if shape == "circle":
        draw.ellipse(box, fill=color)
    elif shape == "square":
        draw.rectangle(box, fill=color)
    elif shape == "triangle":
        draw.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=color)
    else:
        draw.ellipse(box, outline=color, width=radius // 3)


def make_images(folder, count):
    """Writes `count` images into `folder` and returns True, or returns False if they exist."""
    done = folder / f"complete-{count}"
    if done.exists():
        return False
    random.seed(1)
    rng = np.random.default_rng(1)
    for number in range(count):
        name, (color, shape) = list(CLASSES.items())[number % len(CLASSES)]
        image = background(rng)
        draw_shape(image, color, shape)
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
