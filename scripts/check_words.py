#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that user-visible text keeps to one term for one concept: the words in the table below are ruled out.

User-visible are string literals of the C++ sources and tables, string literals and module docstrings of scripts/*.py and
python/ (the --help), what shell scripts and the Makefile print, and the prose of README.md, CONTRIBUTING.md and docs/.
Exempt are code identifiers: literals without a blank, and `code spans` in Markdown.

A line that needs a ruled-out word says so in a comment with a reason:   words: ok, quoted from the driver's header

    scripts/check_words.py            the whole project
    scripts/check_words.py FILE ...   these files only
"""

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# (ruled out, say instead). Matched without regard to case; a blank matches any white space, line breaks too.
WORDS = [
    # One term for one concept.
    (r"\bdata waits?\b|\binput is late\b", "data stall, waiting for data"),
    (r"\bdevice waits\b(?! for the (host|GPU))", "GPU idle"),
    (r"\bcop(y|ies) (to|from) the device\b|\bbytes out\b", "host-to-device (H2D) copy, device-to-host (D2H) copy"),
    (r"\buncovered\b|\bin the open\b", "exposed (copy, communication)"),
    (r"\b(giv(e|es|en|ing)|gave) (it|the (device|GPU)|work to the (device|GPU))( work)?\b(?! (a|the|its|time|no)\b)",
     "kernel launch"),
    (r"\bframework between launches\b", "framework overhead (dispatch)"),
    (r"\bfeed the (device|GPU)\b", "launch-bound, CPU-bound launch"),
    (r"\bproducts?\b|\boperands?\b", "matmul, GEMM; inputs"),
    (r"\bmultiprocessors?\b", "SM"),
    (r"\b(holds?|holding) (it|them|the others?|the job|training|the host|the device) back\b", "bottleneck, limits"),
    (r"(\d\.\d+|\{[^{}]*f\}) times\b|[\d}] times (as|faster|slower|longer)\b", "2.1x"),
    (r"\bat most [\w.{}:]+ times\b(?! (in all|more|a|each|per|its)\b)", "up to 2.1x"),
    (r"\bceilings?\b", "upper bound, up to 2.1x"),
    (r"-> \(", "59.9 ms (56.3-102 ms)"),
    (r"\bpass(es)? (over|through) (the|its) (data|dataset|loader)\b|\b(each|every|a|one|the next|per) pass\b(?!-)", "epoch"),
    (r"\bhand(s|ed|ing)? over\b|\bhand-?overs?\b", "worker-to-trainer transfer (IPC); pass on"),
    (r"\b(Python|interpreter)'s lock\b", "the GIL"),
    (r"\bown cost\b", "overhead"),
    (r"\breplay (is )?off\b", "model error"),
    (r"\bhost (took|takes|had taken)\b", "steal time"),
    (r"\bstarv(e|es|ed|ing|ation)\b|\bcrowd(s|ed|ing)?\b", "CPU contention; runnable but not running"),
    (r"\bmakers?\b", "worker"),
    (r"\b(records?|events?|samples) (\w+ )?lost\b|\blost (records?|events?)\b|\blost (\d|\{)", "dropped records"),
    (r"\bthe late (one|rank)\b", "straggler"),
    (r"[\d}] %(?!\.[\d*]|[\w*{])", "5%"),
    (r"\bforetold\b|\bforetell", "predicted"),
    # Riddles and words of another time.
    (r"\bnobody('s)?\b", "a plain subject: no thread, no tool"),
    (r"\banew\b", "again, new"),
    (r"\bbeside\b", "next to, with, besides"),
    (r"\balike\b", "the same, both"),
    (r"(?<!there\s)\b(is|are) none\b", "does not exist, is not"),
    (r"\bof (its|their|one's) own\b", "a separate; name whose it is"),
    (r"\b(and|their) kin\b", "name the functions, or: and similar calls"),
    (r"\b(is|are|was|were|be) told\b", "is known, is distinguished from"),
    (r"\b(can|to) be had\b", "available"),
    (r"\bspeed-ups?\b", "speedup"),
    (r"\b(other|by the|these) doors?\b", "entry point, way"),
    # American spelling.
    (r"\w*(synchron|initial|recogn|optim|serial|normal|util|organ|quant|vector|summar|categor|token|minim|maxim|prior|general|special|visual)is(e[ds]?|ing|ations?)\b",
     "the American spelling, with z"),
    (r"\banalys(e|ed|es|ing)\b(?!-)", "analyze"),
    (r"\b(neighb|behavi|col|fav|hon)our(s|ed|ing|able|ly|hood)?\b", "the American spelling, -or"),
    (r"\b(centre|grey|artefact|licence|catalogue|programme)s?\b", "the American spelling"),
]  # fmt: skip

EXCUSE = re.compile(r"words: ok(?P<reason>.*)")
CPP = {".h", ".hpp", ".cuh", ".cpp", ".cc", ".c", ".cu", ".def"}
CPP_FOLDERS = ("analyzer", "hooks", "libinject", "cuda")
# Written by document.py from texts that are checked where they stand.
GENERATED = re.compile(r"Generated (by `scripts/document\.py|from analyzer/advise/rules)")


@dataclass
class Text:
    """Text as a reader sees it, with the offset in the file of each of its characters."""

    text: str
    offsets: list

    @classmethod
    def of(cls, source, begin, end):
        """Escapes such as \\n count as blanks: the letter is not part of the word that follows."""
        return cls(re.sub(r"\\[ntr]", "  ", source[begin:end]), list(range(begin, end)))

    def __add__(self, other):
        return Text(self.text + other.text, self.offsets + other.offsets)

    @property
    def is_identifier(self):
        return not re.search(r"\s", self.text.strip()) and "%" not in self.text


CPP_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ \t]*\#[ \t]*include[^\n]*)
      | R"(?P<fence>[^(\s]*)\((?P<raw>.*?)\)(?P=fence)"
      | "(?P<string>(?:[^"\\\n]|\\.)*)"
      | '(?:[^'\\\n]|\\.)+'(?!\w)
      | (?P<space>\s+)
      | (?P<other>[A-Za-z_]\w*|\d[\w'.]*|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def cpp_texts(source):
    """String literals; adjacent ones are one text, as for the compiler."""
    texts, is_open = [], False
    for token in CPP_TOKEN.finditer(source):
        name = next((name for name in ("string", "raw") if token[name] is not None), None)
        if name:
            piece = Text.of(source, *token.span(name))
            if is_open:
                texts[-1] += piece
            else:
                texts.append(piece)
            is_open = True
        elif not token["comment"] and not token["space"]:
            is_open = False
    return [text for text in texts if not text.is_identifier]


def python_texts(source):
    """String constants and module docstrings; other docstrings are comments. An f-string's fields read as {}."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    comments = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)) and isinstance(node.body[0], ast.Expr)
    }
    texts, seen = [], set()

    def located(node, value):
        """The value with offsets by line: enough to say where a word stands."""
        offsets, line = [], node.lineno - 1
        for character in value:
            offsets.append(starts[min(line, len(starts) - 1)])
            line += character == "\n" and node.end_lineno > line + 1
        return Text(value, offsets)

    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            seen.update(id(part) for part in node.values)
            texts.append(located(node, "".join(parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen | comments:
            texts.append(located(node, node.value))
    return [text for text in texts if not text.is_identifier]


PRINTS = re.compile(r"^[^#\n]*\b(say|fail|complain|echo|printf)\b[^\n]*|^[^#\n]*## (?P<help>[^\n]*)", re.MULTILINE)


def shell_texts(source):
    """Lines that print something, and the Makefile's help."""
    return [Text.of(source, *line.span("help" if line["help"] else 0)) for line in PRINTS.finditer(source)]


CODE_SPAN = re.compile(r"```.*?```|`[^`\n]+`|\]\([^)\s]*\)|<!--.*?-->", re.DOTALL)


def markdown_texts(source):
    if GENERATED.search(source):
        return []
    text = CODE_SPAN.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), source)
    return [Text(text, list(range(len(source))))]


def texts_of(path, source):
    if path.suffix == ".md":
        return markdown_texts(source)
    if path.suffix == ".py":
        return python_texts(source)
    if path.suffix == ".sh" or path.name == "Makefile":
        return shell_texts(source)
    return cpp_texts(source)


def compiled(words):
    return [(re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), instead) for pattern, instead in words]


RULES = compiled(WORDS)


def complaints(path, source):
    """'path:line: what is wrong' for each ruled-out word of a file."""
    lines, found = source.splitlines(), set()
    encoded = source.encode() if path.suffix == ".py" else None
    for text in texts_of(path, source):
        for pattern, instead in RULES:
            for match in pattern.finditer(text.text):
                offset = text.offsets[match.start()]
                line = (encoded.count(b"\n", 0, offset) if encoded else source.count("\n", 0, offset)) + 1
                word = " ".join(match[0].split())
                excuse = EXCUSE.search(lines[line - 1])
                if excuse and re.search(r"\w", excuse["reason"]):
                    continue
                without = ' ("words: ok" needs a reason)' if excuse else ""
                found.add((line, f'{path}:{line}: "{word}": say {instead}{without}'))
    return [text for _, text in sorted(found)]


def is_checked(path):
    folder, suffix = path.parts[0], path.suffix
    if suffix == ".md":
        return len(path.parts) == 1 or folder == "docs"
    if folder in ("scripts", "python"):
        return suffix in (".py", ".sh") and path.name != Path(__file__).name
    return str(path) == "Makefile" or folder in CPP_FOLDERS and suffix in CPP


def project_files():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    return [Path(name) for name in listed if (ROOT / name).is_file() and is_checked(Path(name))]


def main(arguments):
    if any(name.startswith("-") for name in arguments):
        print(__doc__)
        return 0 if arguments[0] in ("-h", "--help") else 2
    files = [Path(name) for name in arguments] or project_files()
    found = [line for path in files for line in complaints(path, (ROOT / path).read_text(errors="replace"))]
    for line in found:
        print(f"check_words: {line}", file=sys.stderr)
    if found or not files:
        print(f"check_words: {len(found)} ruled-out words in {len(files)} files", file=sys.stderr)
        return 1
    print(f"check_words: {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
