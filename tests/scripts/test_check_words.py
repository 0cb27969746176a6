# SPDX-License-Identifier: Apache-2.0
"""Planted words are rejected where a user reads them, and nowhere else (scripts/check_words.py)."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_words  # noqa: E402

pytestmark = pytest.mark.beside_others

PLANTED = {
    "analyzer/report/text.cpp": '// nobody\nconst char* text = "one\\n"\n    "replay "\n    "off {:.1f}";\n',
    "analyzer/attribute/category.def": 'GW_CATEGORY(CopyH2D, "copy.h2d", "copy to the device", DeviceBusy)\n',
    "hooks/cupti/cupti.cpp": 'log("{} records lost", count);\n',
    "scripts/bench.py": 'print(f"it runs {speedup:.2f} times as fast")\n',
    "scripts/demo/demo.py": '"""Runs the demo anew."""\n',
    "scripts/setup.sh": 'say "the system\'s packages are none"\n',
    "Makefile": "asan: ## the undefined-behaviour sanitizer\n",
    "README.md": "# gpuwatch\n\nThe device waits; one pass\nover the data takes 5 %.\n",
    "docs/stacks.md": "| a | frames beside it |\n",
}

INNOCENT = {
    "analyzer/report/json.cpp": 'write("lost_events", "ceiling", "input.cpu_starved");  // nobody, anew\n',
    "analyzer/cli/main.cpp": "// beside\nbool starved = false;\n#include \"analyzer/predict/hand_over.h\"\n",
    "hooks/libc/libc.cpp": 'log("GPU idle 5%% of %d steps, up to 2.1x, {:.1f}% of it");\n',
    "scripts/accuracy.py": 'def f():\n    """Not printed: nobody reads it."""\n    return "%d" % 5 % 3\n',
    "docs/attribution.md": "The category `input.cpu_starved`; see [the page](beside.md). It tries twice, at most 3 times in all.\n",
}


@pytest.mark.parametrize("path", PLANTED)
def test_rejects_planted_words(path):
    assert check_words.is_checked(Path(path))
    assert check_words.complaints(Path(path), PLANTED[path])


@pytest.mark.parametrize("path", INNOCENT)
def test_leaves_identifiers_and_comments_alone(path):
    assert check_words.complaints(Path(path), INNOCENT[path]) == []


def test_says_where_and_what_instead():
    (said,) = check_words.complaints(Path("analyzer/a.cpp"), 'int a;\nauto b = "first "\n  "Python\'s lock";\n')
    assert said == 'analyzer/a.cpp:3: "Python\'s lock": say the GIL'


def test_an_excuse_needs_a_reason():
    line = 'log("the ceiling of the file size");  // words: ok'
    assert "needs a reason" in check_words.complaints(Path("hooks/a.cpp"), line)[0]
    assert check_words.complaints(Path("hooks/a.cpp"), line + ", RLIMIT_FSIZE is called so in its manual") == []


def test_finds_every_word_of_a_page():
    said = check_words.complaints(Path("README.md"), PLANTED["README.md"])
    assert [line.split('"')[1] for line in said] == ["device waits", "one pass", "5 %"]
