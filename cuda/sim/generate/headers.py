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
            found[match.group(1)] = " ".join(text[match.end() : at - 1].split())
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
    """Exported names of the per-thread default stream variants of the driver."""
    wrapped = re.findall(r"__CUDA_API_PT(DS|SZ)\((cu[A-Z]\w*)\)", text)
    return {f"{name}_pt{kind.lower()}" for kind, name in wrapped}


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
