#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the hook tables with the vendor's headers: each function of the CUDA runtime, of the driver and of NCCL is in
a table of hooks, or in left_out.def with the reason why it is not.

A row of left_out.def that names no function, or one that is hooked after all, is a mistake as well. The headers are
those that the build uses (build/cuda, build/nccl). --self-test plants mistakes and checks that they are found.
"""

import argparse
import re
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Interface:
    header: str
    declaration: str  # of a function in the header; group 1 is its name
    hooks: str
    row: str  # of the table of hooks; group 1 is its name
    left_out: str
    uncounted: str = r"(?!)"  # end of a name that does not make it another function


INTERFACES = [
    Interface(
        "build/cuda/include/cuda_runtime_api.h", r"\bextern\s[^;{]*?\bCUDARTAPI(?:_CDECL)?\s+(\w+)\s*\(",
        "hooks/cudart/cudart.def", r"^GW_CUDART(?:_WORDS)?\((\w+),", "hooks/cudart/left_out.def", r"_(?:v\d+|ptsz|ptds)$",
    ),
    Interface(
        "build/cuda/include/cuda.h", r"\bCUresult\s+CUDAAPI\s+(\w+)\s*\(",
        "hooks/cupti/driver.def", r"^GW_DRIVER\((\w+),", "hooks/cupti/left_out.def", r"_(?:v\d+|ptsz|ptds)$",
    ),
    Interface(
        "build/nccl/include/nccl.h", r"\b(p?nccl[A-Z]\w*)\s*\([^;{}()]*\)\s*;",
        "hooks/nccl/nccl.def", r"^GW_NCCL\((\w+),", "hooks/nccl/left_out.def",
    ),
]  # fmt: skip
LEFT_OUT = re.compile(r'^GW_LEFT_OUT\("(?P<pattern>[\w*]+)", "(?P<reason>[^"]+)"\)$', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


@dataclass
class Tables:
    """What is compared: names of the header and of the hooks, and pattern -> reason."""

    declared: set = field(default_factory=set)
    hooked: set = field(default_factory=set)
    left_out: dict = field(default_factory=dict)

    def mistakes(self, where):
        matched = {pattern: {name for name in self.declared if fnmatchcase(name, pattern)} for pattern in self.left_out}
        for name in sorted(self.declared - self.hooked - set().union(*matched.values())):
            yield f"{where.left_out}: {name} of {where.header} is neither hooked nor left out with a reason"
        for pattern, names in matched.items():
            if not names:
                yield f"{where.left_out}: {where.header} has no {pattern}"
            for name in sorted(names & self.hooked):
                yield f"{where.left_out}: {pattern} covers {name}, which {where.hooks} hooks"


def counted(name, where):
    """cuMemAlloc for cuMemAlloc_v2_ptsz."""
    while (shorter := re.sub(where.uncounted, "", name)) != name:
        name = shorter
    return name


def without_noise(header):
    return DIRECTIVE.sub("", COMMENT.sub("", header))


def read(where):
    declared = re.findall(where.declaration, without_noise((ROOT / where.header).read_text()))
    return Tables(
        {counted(name, where) for name in declared},
        set(re.findall(where.row, (ROOT / where.hooks).read_text(), re.MULTILINE)),
        {row["pattern"]: row["reason"] for row in LEFT_OUT.finditer((ROOT / where.left_out).read_text())},
    )


def self_test(where, tables):
    """A new function, a row for none, and a row for a hooked one."""
    hooked = min(tables.declared & tables.hooked)
    planted = Tables(
        tables.declared | {"plantedFunction"}, tables.hooked, {**tables.left_out, "plantedRow*": "none", hooked: "by mistake"}
    )
    found = set(planted.mistakes(where)) - set(tables.mistakes(where))
    if len(found) == 3 and all(any(word in mistake for mistake in found) for word in ("plantedFunction", "plantedRow*", hooked)):
        return []
    return [f"check_left_out: planted three mistakes in {where.left_out}, found {sorted(found)}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--self-test", action="store_true", help="check that planted mistakes are found")
    options = parser.parse_args()
    all_tables = [(where, read(where)) for where in INTERFACES]
    mistakes = []
    for where, tables in all_tables:
        mistakes += self_test(where, tables) if options.self_test else tables.mistakes(where)
    for mistake in mistakes:
        print(mistake)
    if not mistakes and not options.self_test:
        count = sum(len(tables.declared) for _, tables in all_tables)
        left_out = sum(len(tables.declared - tables.hooked) for _, tables in all_tables)
        print(f"check_left_out: {count} functions, {left_out} left out on purpose")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
