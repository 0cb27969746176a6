# SPDX-License-Identifier: Apache-2.0
"""Shell completion and the manual page, which are made from the parser's own table: they name what --help names, and work."""

import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.beside_others
SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def said(gpuwatch):
    """What the program prints for these words."""

    def say(*words):
        return subprocess.run([gpuwatch, *words], capture_output=True, text=True, check=True).stdout

    return say


@pytest.fixture(scope="module")
def commands(said):
    """The commands of --help, and the options of each."""
    names = re.findall(r"^  (\w+)\s", said("--help").partition("Subcommands:")[2], re.MULTILINE)
    assert len(names) > 7
    return {name: set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", said(name, "--help").partition("Options:")[2])) for name in names}


@pytest.fixture(scope="module")
def complete(said, gpuwatch, tmp_path_factory):
    """What bash offers for a line."""
    script = tmp_path_factory.mktemp("completion") / "gpuwatch.bash"
    script.write_text(said("completion", "bash"))

    def offered(*words):
        line = "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _gpuwatch; printf '%s\\n' \"${COMPREPLY[@]}\""
        environment = {"PATH": f"{gpuwatch.parent}:/usr/bin:/bin"}
        done = subprocess.run(["bash", "--norc", "-c", f'. "{script}"; {line}', "bash", "gpuwatch", *words], capture_output=True, text=True, env=environment)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return set(done.stdout.split())

    return offered


@pytest.mark.parametrize("shell", SHELLS)
def test_names_every_command(shell, said, commands):
    script = said("completion", shell)
    assert [name for name in commands if not re.search(rf"\b{name}\b", script)] == []
    assert not re.search(r"\b(completion|man)\)", script), "hidden commands are not offered"
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_offers_commands_and_options(complete, commands):
    assert set(commands) < complete("")
    assert complete("ana") == {"analyze"}
    for name, options in commands.items():
        assert options <= complete(name, "--"), name
    assert "dataloader-workers" in complete("explain", "dataloader-")


def test_bash_leaves_the_jobs_words_alone(complete):
    assert "--apply" in complete("run", "--")
    assert "--apply" not in complete("run", "python", "--")
    assert "--apply" not in complete("run", "-o", "dir", "python", "--")
    assert "--apply" not in complete("run", "--", "--")
    assert "--apply" not in complete("run", "-o", "--")
    assert "true" in complete("run", "tru")
    assert "true" in complete("run", "-o", "dir", "tru")


def test_manual_has_every_command_and_option(said, commands):
    page = said("man")
    text = page.replace("\\-", "-")
    for name, options in commands.items():
        section = text.partition(f".SS gpuwatch {name}")[2].partition(".SS")[0]
        assert {option for option in options if f"\\fB{option}\\fR" not in section} == set(), name
    assert not [line for line in page.splitlines() if re.match(r"[.'](?!TH|SH|SS|TP|PP|br|nf|fi)", line)]
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr
