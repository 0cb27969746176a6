# SPDX-License-Identifier: Apache-2.0
"""The question that the device programs of tests/abroad answer on a GPU: is the first finding right, and what it predicts?

Each program runs as it is, with each of its fixes, as it is again, and once recorded. As in tests/abroad/truth.py the fixes within 3% of
the best are right, by the program's own clock, here of one round. Each run is a process that has imported PyTorch before the first one
began: half of a program's time would otherwise be the import.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import rig
from rig import Failed, Figure, NotRun, die_with_parent, runtime_folder

sys.path.insert(0, str(rig.ROOT / "tests/abroad"))
sys.path.insert(0, str(rig.ROOT / "scripts"))
import abroad  # noqa: E402
import abroad_case  # noqa: E402
import cases  # noqa: E402
import truth  # noqa: E402

COMPILED = rig.BUILD / "abroad/bin"  # of a bundle
DATA = rig.BUILD / "abroad/data"
LONGEST_S = 60

WARM = """
import json, pathlib, runpy, sys, torch
print("warm", flush=True)
sys.argv = json.loads(sys.stdin.readline())
sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
"""

NOW = truth.NOW


def on_a_device():
    """Programs that need a GPU and no slow storage. Compiled ones first: they take the least time."""
    found = [case for case in cases.CASES if case.device and not case.mount and not case.store_ms]
    return sorted(found, key=lambda case: not case.program.endswith(".cu"))


def command_of(case, words):
    folder = DATA if DATA.exists() else abroad_case.HOME / "data"
    if case.data and not (folder / case.data).exists():
        raise NotRun(f"{folder / case.data} does not exist: make_data.py writes it")
    words = [word.format(data=folder / case.data) for word in words]
    if not case.program.endswith(".cu"):
        return [str(abroad_case.PROGRAMS / case.program), *words]
    folder = COMPILED if COMPILED.exists() else abroad_case.HOME / "bin"
    program = folder / Path(case.program).stem
    if not program.exists():
        raise NotRun(f"{program} does not exist: building it needs nvcc")
    return [str(program), *words]


def environment_of(the_rig, case, out=None):
    is_compiled = case.program.endswith(".cu")
    environment = the_rig.environment(out, runtime=is_compiled, ABROAD_DISK=the_rig.scratch, PYTHONDONTWRITEBYTECODE=1, **case.env)
    if is_compiled and not the_rig.simulated and (folder := runtime_folder()):
        environment["LD_LIBRARY_PATH"] = str(folder)
    return environment


def own_clock(case, words, done_stdout, status, errors):
    lines = [line for line in done_stdout.splitlines() if line.startswith('{"step_ms"')]
    if status or not lines:
        last = (errors.strip() or "no output").splitlines()[-1]
        raise Failed(f"{case.program} {' '.join(words)} failed with status {status}: {last}")
    return json.loads(lines[-1])


class Run:
    """A run of a program, which imports PyTorch when it is made and begins with clock()."""

    def __init__(self, the_rig, case, words):
        self.case, self.words = case, words
        self.command = command_of(case, (*case.words, *words))
        self.options = dict(
            env=environment_of(the_rig, case), cwd=the_rig.scratch, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent,
        )  # fmt: skip
        self.warm = None if case.program.endswith(".cu") else subprocess.Popen([sys.executable, "-c", WARM], **self.options)

    def wait_for_imports(self):
        if self.warm:
            self.warm.stdout.readline()

    def clock(self):
        """The program's own clock."""
        process = self.warm or subprocess.Popen(self.command, **self.options)
        try:
            stdout, errors = process.communicate(json.dumps(self.command) + "\n", timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failed(f"{self.case.program} {' '.join(self.words)} took more than {LONGEST_S} s") from None
        return own_clock(self.case, self.words, stdout, process.returncode, errors)


def run_in_turn(the_rig, case, all_words):
    """(words, the program's own clock) of one run after the other, after all imports."""
    runs = [Run(the_rig, case, words) for words in all_words]
    for run in runs:
        run.wait_for_imports()
    for run in runs:
        yield run.words, run.clock()


def recorded(the_rig, case):
    out = the_rig.new_folder(case.name)
    command = command_of(case, case.words)
    if not case.program.endswith(".cu"):
        command = [sys.executable, *command]
    done = the_rig.run(command, environment_of(the_rig, case, out))
    report = the_rig.analyze(out)
    shutil.rmtree(out, ignore_errors=True)
    return own_clock(case, (), done.stdout, done.returncode, done.stderr), report


def program_part(case):
    def part(the_rig):
        if the_rig.quick:
            raise NotRun("the programs run in full length only: leave --quick out")
        if not case.program.endswith(".cu"):
            the_rig.need_torch()
        times, clocks = {}, {}
        for words, own in run_in_turn(the_rig, case, [(), *(fix.words for fix in case.fixes), ()]):
            name = " ".join(words)
            times.setdefault(name, []).append(truth.sample_us(own))
            clocks[name] = own
        yield from truth_figures(case, times)
        own, report = recorded(the_rig, case)
        yield Figure("recorded: step longer by", (own["step_ms"] / clocks[NOW]["step_ms"] - 1) * 100, "%")
        yield from judged(the_rig, case, times, clocks[NOW], report)

    return part


def truth_figures(case, times):
    for name, values in times.items():
        yield Figure(f"a sample with {name}" if name else "a sample as it is", sum(values) / len(values), "us", raw=values)
    found = truth.judged(case, times, 0)
    yield Figure("right", ", ".join(found["findings"]) or "healthy")
    yield Figure("gain", found["gain"], "x")


def judged(the_rig, case, times, own, report):
    """`own`: the clock of the program as it is, not recorded. An upper bound is a factor of that."""
    found, right = abroad.complaints(report), truth.judged(case, times, 0)
    yield Figure("findings, first to last", ", ".join(one["id"] for one in found) or f"none ({report['verdict']['id']})")
    is_right = not found if right["healthy"] else bool(found) and found[0]["id"] in right["findings"]
    yield Figure("first finding is right", "yes" if is_right else "no")
    words = abroad.words_of(case, found[0]) if found else None
    if not words:
        return
    ((_, after),) = run_in_turn(the_rig, case, [words])
    yield Figure("applied", " ".join(words))
    said = {key: found[0][key] for key in ("prediction", "ceiling")}
    row = abroad.Row({"program": case.name, "status": case.status, "own": own, "achieved": after, **said}, right, False)
    if row.interval:
        expected = row.prediction["expected"] if row.prediction else row.interval[0]
        yield Figure("predicted" if row.prediction else "upper bound", expected, row.metric, *row.interval)
    yield Figure("achieved", after[row.metric], row.metric)
    yield Figure("inside the interval", {None: "nothing was said", True: "yes", False: "no"}[row.is_inside])


PARTS = {case.name: program_part(case) for case in on_a_device()}
