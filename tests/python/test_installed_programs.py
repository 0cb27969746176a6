# SPDX-License-Identifier: Apache-2.0
"""Programs that pip installed, started by the script that it writes into bin/: places are the package's, not that script's."""

import sys

import pytest

pytestmark = pytest.mark.beside_others

LOOP = """
from torch.utils.data import DataLoader
def train():
    loader = DataLoader([1.0, 2.0], num_workers=0)
    for _ in loader:
        pass
"""
START = """import sys
from trainer.cli import train
if __name__ == '__main__':
    sys.exit(train())
"""


@pytest.fixture
def started(tmp_path, run_watched):
    """The place of the loader of a program `bin/trainer` with this text, and of a package with the loop."""

    def run(text):
        package, script = tmp_path / "site-packages/trainer", tmp_path / "bin/trainer"
        package.mkdir(parents=True)
        script.parent.mkdir()
        (package / "cli.py").write_text(LOOP)
        script.write_text(text)
        done = run_watched([sys.executable, script], env={"PYTHONPATH": str(tmp_path / "site-packages")})
        assert done.returncode == 0, done.stderr
        return done.trace.tables("LoaderInfo")[0]["location"].removeprefix(f"{tmp_path}/")

    return run


def test_place_is_in_the_package(started):
    assert started(START) == "site-packages/trainer/cli.py:4"


def test_script_that_trains_itself_keeps_its_place(started):
    assert started(LOOP + "train()\n") == "bin/trainer:4"


def test_script_that_trains_at_its_top_level_keeps_its_place(started):
    assert started("from torch.utils.data import DataLoader\nnext(iter(DataLoader([1.0])))\n") == "bin/trainer:2"
