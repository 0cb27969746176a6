#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/demo.svg, the picture in README.md, from a real session of the demo.

    scripts/demo/picture.py              runs the demo (make demo-picture), keeps its text in build/demo-session.txt, draws it
    scripts/demo/picture.py SESSION      draws the text of an earlier session

The picture has the first job only: what gpuwatch tried and measured, and the report of the job as it is.
"""

import argparse
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/demo.svg"
SESSION = ROOT / "build/demo-session.txt"
COLUMNS = 80
HEADING = re.compile(r"^=== (.*)", re.MULTILINE)
# Links and web fonts do not load where GitHub shows a picture. The text is laid out for a cell of 12.2 units a column, and
# textLength fits any monospaced font into it.
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"


def run_demo():
    """The demo's text, with its colors: it runs in a pseudo-terminal and is shown meanwhile."""
    os.environ |= {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    text = bytearray()

    def read(descriptor):
        if not text:  # before the demo starts gpuwatch, which asks for the width
            fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        data = os.read(descriptor, 65536)
        text.extend(data)
        return data

    status = pty.spawn([sys.executable, str(ROOT / "scripts/demo/demo.py")], read)
    if status:
        sys.exit(f"picture: the demo failed with status {os.waitstatus_to_exitcode(status)}; docs/demo.svg is unchanged")
    return text.decode(errors="replace").replace("\r\n", "\n")


def command_of(heading):
    """A demo's heading as the command that a user would type."""
    command = re.sub(r"\S*/bin/python\S*", "python", heading).replace("scripts/demo/", "")
    command = re.sub(r"build/demo-data --checkpoint \S+ --image-size \d+ --width \d+", "images", command)
    return re.sub(r"gpuwatch analyze .*", "gpuwatch analyze gpuwatch-try-train-*/1", command)


def first_job(session):
    """[(heading, text)] up to the first report."""
    pieces = HEADING.split(session)
    parts = list(zip(pieces[1::2], pieces[2::2]))
    end = next((n for n, (heading, _) in enumerate(parts) if heading.startswith("gpuwatch analyze")), len(parts) - 1)
    return parts[: end + 1]


def shown(session):
    lines = []
    for heading, text in first_job(session.replace(f"{ROOT}/", "")):
        is_command = heading.startswith("gpuwatch ")
        lines.append(f"$ {command_of(heading)}" if is_command else heading)
        lines += [*text.strip("\n").splitlines(), ""]
    return "\n".join(lines).rstrip("\n")


def svg(text):
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True, color_system="truecolor")
    for line in text.splitlines():
        drawn = Text.from_ansi(line)
        if line.startswith("$ "):
            drawn.stylize("bold")
        console.print(drawn, overflow="fold")
    drawing = console.export_svg(title="make demo", unique_id="demo")
    drawing = re.sub(r"@font-face \{.*?\}\s*", "", drawing, flags=re.DOTALL)
    return re.sub(r"font-family: [^;]*;", f"font-family: {FONTS};", drawing)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("session", nargs="?", type=Path, help="text of an earlier session; without it the demo is run")
    session = parser.parse_args().session
    if session is None:
        SESSION.parent.mkdir(exist_ok=True)
        SESSION.write_text(run_demo())
    text = (session or SESSION).read_text()
    if not HEADING.search(text):
        sys.exit(f"picture: {session} has no line that starts with '===': it is not the text of a demo")
    PICTURE.write_text(svg(shown(text)))
    print(f"picture: wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
