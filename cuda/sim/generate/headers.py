# SPDX-License-Identifier: Apache-2.0
"""Reads what the simulated device needs out of the vendor's public headers."""

import re
from pathlib import Path


def text_of(path):
    """The header without comments."""
    text = Path(path).read_text(errors="replace")
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"//[^\n]*", " ", text)


def declarations(text, convention):
    """{name: parameter list} of the functions declared with this calling-convention macro."""
    found = {}
    for match in re.finditer(convention + r"\s+(\w+)\s*\(", text):
        depth, at = 1, match.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        if text[at:].lstrip().startswith(";"):
            # Some are declared again, in the shape of an older release, for the vendor's own use.
            found.setdefault(match.group(1), " ".join(text[match.end() : at - 1].split()))
    return found


def without_defaults(parameters):
    parameters = re.sub(r"__dv\([^)]*\)", "", parameters)
    return re.sub(r"=\s*[\w:()]+", "", parameters)


def argument_names(parameters):
    names = []
    for parameter in without_defaults(parameters).split(","):
        words = re.findall(r"\w+", parameter)
        if words and words != ["void"]:
            names.append(words[-1])
    return names


def per_thread_variants(text):
    """{name: suffix} of the runtime functions that have a per-thread default stream entry point."""
    return {
        name: "_" + kind.lower()
        for name, kind in re.findall(r"#\s*define\s+(\w+)\s+__CUDART_API_(PTDS|PTSZ)\(", text)
    }


def renamed(text):
    """{plain name: exported name} of the driver functions, as in `#define cuMemAlloc cuMemAlloc_v2`."""
    plain = dict(re.findall(r"#\s*define\s+(cu[A-Z]\w*)\s+(cu[A-Z]\w*)\s*$", text, flags=re.M))
    wrapped = re.findall(r"#\s*define\s+(cu[A-Z]\w*)\s+__CUDA_API_PT(DS|SZ)\((cu[A-Z]\w*)\)", text)
    for name, _, target in wrapped:
        plain.setdefault(name, target)
    return plain


def driver_per_thread(text):
    """{exported name: plain name} of the driver's functions for the per-thread default stream."""
    wrapped = re.findall(r"#\s*define\s+(cu[A-Z]\w*)\s+__CUDA_API_PT(DS|SZ)\((cu[A-Z]\w*)\)", text)
    return {f"{name}_pt{kind.lower()}": plain for plain, kind, name in wrapped}


def driver_versions(typedefs, exported):
    """[(name, version, per thread, exported name)]: which function a name means from which CUDA version on.

    `typedefs` is the text of cudaTypedefs.h: PFN_cuMemAlloc_v3020. The n-th version of a name is the n-th of cuMemAlloc,
    cuMemAlloc_v2, ... that is exported.
    """
    versions = {}
    for name, version, suffix in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_pt(?:ds|sz))?\)", typedefs):
        versions.setdefault((name, suffix), set()).add(int(version))
    rows = []
    for (name, suffix), numbers in versions.items():
        pattern = re.compile(rf"{name}(?:_v(\d+))?{suffix}")
        matches = filter(None, map(pattern.fullmatch, exported))
        functions = [m[0] for m in sorted(matches, key=lambda m: int(m[1] or 1))]
        assert len(functions) == len(numbers), (name, numbers, functions)
        rows += [(name, version, bool(suffix), function) for version, function in zip(sorted(numbers), functions)]
    return sorted(rows)


def callback_ids(path, domain):
    """[(id, name with version)] of a CUPTI callback-id header."""
    pattern = rf"CUPTI_{domain}_TRACE_CBID_(\w+)\s*=\s*(\d+)"
    pairs = re.findall(pattern, text_of(path))
    return [(int(number), name) for name, number in pairs if name not in ("INVALID", "SIZE")]


def newest_ids(ids):
    """{plain name: id} with the newest version of each name."""
    newest = {}
    for number, versioned in ids:
        match = re.fullmatch(r"(\w+?)_v(\d+)", versioned)
        name, version = (match.group(1), int(match.group(2))) if match else (versioned, 0)
        if version >= newest.get(name, (0, -1))[1]:
            newest[name] = (number, version)
    return {name: number for name, (number, _) in newest.items()}
