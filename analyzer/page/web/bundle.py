#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the page together: bundle.py DYGRAPHS_FOLDER PAGE.html

Styles, the charts library with its license, and the modules of this folder go into page.html. The modules become one script: their
imports are dropped, so no two of them may have a top-level name in common. The policy at the head of the page allows exactly
these scripts and styles, by their hashes, and nothing from anywhere else.
"""

import base64
import hashlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Each after those that it imports.
MODULES = ("format.js", "dom.js", "summary.js", "steps.js", "paint.js", "lanes.js", "timeline.js", "workers.js", "main.js")
LICENSE = Path("/usr/share/doc/libjs-dygraphs/copyright")

IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
EXPORT = re.compile(r"^export (?=const|class|function|async function)", re.MULTILINE)
TOP_LEVEL = re.compile(r"^(?:const|let|class|function|async function) (\w+)", re.MULTILINE)
VERSION = re.compile(r'VERSION="(2\.[0-9.]+)"')  # of dygraphs, whose second version the modules are written for
SOURCE_MAP = re.compile(r"/[/*][#@] sourceMappingURL=\S+?(?:\s*\*/)?\s*$")  # a browser would look for that file


def own_script():
    parts = [EXPORT.sub("", IMPORT.sub("", (HERE / name).read_text())) for name in MODULES]
    names = [name for part in parts for name in TOP_LEVEL.findall(part)]
    if twice := {name for name in names if names.count(name) > 1}:
        sys.exit(f"bundle.py: several modules have a top-level {', '.join(sorted(twice))}; rename it in one of them")
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def hash_of(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def main():
    library, output = Path(sys.argv[1]), Path(sys.argv[2])
    charts = SOURCE_MAP.sub("", (library / "dygraph.min.js").read_text())
    version = VERSION.search(charts)
    if not version:
        sys.exit(f"bundle.py: {library} has not version 2 of dygraphs")
    styles = SOURCE_MAP.sub("", (library / "dygraph.css").read_text()) + (HERE / "page.css").read_text()
    script = own_script()
    for text in (charts, script):
        if "</script" in text.lower() or "<!--" in text:
            sys.exit("bundle.py: a script has what would end its element")
    policy = (
        f"default-src 'none'; script-src {hash_of(charts)} {hash_of(script)}; style-src {hash_of(styles)}; "
        "base-uri 'none'; form-action 'none'"
    )
    page = (HERE / "page.html").read_text()
    license = LICENSE.read_text().replace("&", "&amp;").replace("<", "&lt;")
    for place, text in (("POLICY", policy), ("STYLES", styles), ("CHARTS", charts), ("SCRIPT", script), ("VERSION", version[1]), ("LICENSE", license)):
        if page.count(f"@{place}@") != 1:
            sys.exit(f"bundle.py: page.html has not exactly one @{place}@")
        before, after = page.split(f"@{place}@")
        page = before + text + after
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page)


if __name__ == "__main__":
    main()
