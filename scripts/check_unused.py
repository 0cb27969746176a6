#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds enum values that nothing uses: a value that no code produces or asks for is a promise that is not kept.

  Schema (libinject/trace/trace.fbs): the recorder's side must name each value, because only it can produce one. Naming
  a class in op_class.def is its definition, and asking for it in the analyzer does not make it occur.
  C++ (enums of the project, and the constants of libinject/trace/layout.h): named anywhere but in their definition, a
value of an enum class together with its enum, or pasted from a .def table.

Tests do not count as use. --self-test plants unused values and checks that they are found.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = "libinject/trace/trace.fbs"
LAYOUT = "libinject/trace/layout.h"
TRAITS = "libinject/trace/op_class.def"
FOLDERS = ("libinject/", "hooks/", "cuda/", "analyzer/")
RECORDER = ("libinject/", "hooks/", "cuda/")
SIMULATED = ("cuda/sim/", "cuda/workloads/")
ENDINGS = {".h", ".cpp", ".def", ".cu", ".cuh", ".in"}

# (enum, value): why it may stay although nothing names it.
EXCEPTIONS = {
    ("Op", "kNone"): "0 is no operation",
    ("RecordKind", "None"): "0 is what an unwritten slot reads as",
    ("RecordKind", "DeviceSync"): "traces until November 2026 hold it",
    ("OpClass", "Other"): "0 is what an operation without a class, or of a newer recorder, reads as",
    ("EndReason", "Unknown"): "0 is what an unwritten field reads as",
    ("SourceState", "Unknown"): "0 is what a trace before 1.3 reads as",
    ("StopReason", "Recording"): "0 is what the header of a running job reads as",
}

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
CPP_ENUM = re.compile(r"\benum\s+(?P<scoped>class\s+|struct\s+)?(?P<name>\w+)?\s*(?::\s*[\w:]+\s*)?\{(?P<body>[^}]*)\}")
SCHEMA_ENUM = re.compile(r"\benum\s+(?P<name>\w+)\s*:\s*\w+\s*\{(?P<body>[^}]*)\}")
CONSTANT = re.compile(r"\binline constexpr \w+ (?P<name>k\w+)\b")


def code_of(text):
    """Without comments and texts, each as long as before."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])  # noqa: E731
    return STRING.sub(blank, COMMENT.sub(blank, text))


def values_of(body):
    """Names in the braces of an enum. Values that a macro or a table pastes have no name here."""
    body = re.sub(r"^\s*#.*$", "", body, flags=re.MULTILINE)
    for entry in body.split(","):
        match = re.match(r"\s*(\w+)\s*(?:=|$)", entry)
        if match:
            yield match[1]


class Definition:
    def __init__(self, enum, value, path, place, needs_enum):
        self.enum, self.value, self.path, self.needs_enum = enum, value, path, needs_enum
        self.begin, self.end = place

    @property
    def key(self):
        return self.enum, self.value

    def is_named_in(self, path, text):
        """Tables (.def) name values without their enum: macros paste it."""
        word = f"{self.enum}::{self.value}" if self.needs_enum and not path.endswith(".def") else self.value
        here = (self.begin, self.end) if path == self.path else (0, 0)
        pattern = re.compile(rf"\b{re.escape(word)}\b")
        return any(not here[0] <= match.start() < here[1] for match in pattern.finditer(text))

    def is_used(self, sources):
        for path, text in sources.items():
            if self.path == SCHEMA and (path in (SCHEMA, TRAITS) or not path.startswith(RECORDER)):
                continue
            if self.is_named_in(path, text):
                return True
        return False


def definitions(sources):
    for path, text in sources.items():
        pattern = SCHEMA_ENUM if path == SCHEMA else CPP_ENUM
        for enum in pattern.finditer(text):
            needs_enum = path == SCHEMA or bool(enum["scoped"])
            for value in values_of(enum["body"]):
                yield Definition(enum["name"] or "", value, path, enum.span(), needs_enum)
        if path == LAYOUT:
            for constant in CONSTANT.finditer(text):
                yield Definition("layout.h", constant["name"], path, constant.span(), False)


def unused(sources):
    return [one for one in definitions(sources) if one.key not in EXCEPTIONS and not one.is_used(sources)]


def read_sources():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    # The simulated device's numbers are NVIDIA's, and what it uses, gpuwatch need not.
    paths = [p for p in listed if (Path(p).suffix in ENDINGS or p == SCHEMA) and not p.startswith(SIMULATED)]
    return {path: code_of((ROOT / path).read_text()) for path in paths if (ROOT / path).is_file()}


def stale_exceptions(sources):
    return sorted(set(EXCEPTIONS) - {one.key for one in definitions(sources)})


def self_test(sources):
    """What is planted must be found, and nothing else."""
    planted = dict(sources)
    planted[SCHEMA] = re.sub(r"(enum OpClass : ubyte \{)", r"\1 Planted = 200,", sources[SCHEMA])
    planted[TRAITS] += "\nGW_OP_CLASS(Planted, None, 0)\n"
    planted["analyzer/planted.cpp"] = "bool asks(OpClass c) { return c == OpClass::Planted; }\n"
    planted["analyzer/planted.h"] = "enum class Planting { kSown, kReaped };\nauto use = Planting::kSown;\n"
    found = {one.key for one in unused(planted)} - {one.key for one in unused(sources)}
    expected = {("OpClass", "Planted"), ("Planting", "kReaped")}
    if found != expected:
        print(f"check_unused: planted {sorted(expected)}, found {sorted(found)}")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--self-test", action="store_true", help="check that planted values are found")
    options = parser.parse_args()
    sources = read_sources()
    if options.self_test:
        return self_test(sources)
    mistakes = [f"{one.path}: {one.enum}::{one.value} is used nowhere" for one in unused(sources)]
    for enum, value in stale_exceptions(sources):
        mistakes.append(f"scripts/check_unused.py: there is no {enum}::{value}; its exception can go")
    for mistake in mistakes:
        print(mistake)
    if not mistakes:
        print(f"check_unused: {sum(1 for _ in definitions(sources))} enum values")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
