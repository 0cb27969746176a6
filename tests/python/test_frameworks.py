# SPDX-License-Identifier: Apache-2.0
"""Loaders that are not torch's, by stand-ins that have the names gpuwatch wraps: each wait in next() once, of the length
that the program saw itself, with the loader's settings and the user's line. tests/frameworks does this with the real
packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

STUBS = Path(__file__).with_name("stub_frameworks")

HEAD = """
import json, sys, time
waits = []
def slow(count=6, ms=8):
    for i in range(count):
        time.sleep(ms / 1e3)
        yield i
def timed(iterator):
    while True:
        began = time.monotonic_ns()
        try:
            batch = next(iterator)
        except StopIteration:
            return
        waits.append((began, time.monotonic_ns()))
        yield batch
class BatchDataset:
    _batch_size = 4
    _input_dataset = None
    def batches(self):
        return slow()
class _PrefetchDataset(BatchDataset):
    _batch_size = None
    _input_dataset = BatchDataset()
"""
SLEEP_NS = 8e6
TAIL = "\nprint(json.dumps(waits))\n"


@pytest.fixture
def run(run_watched, tmp_path):
    def of(source, env=None):
        script = tmp_path / "script.py"
        script.write_text(HEAD + source + TAIL)
        done = run_watched([sys.executable, script], env={"PYTHONPATH": str(STUBS / "site-packages"), **(env or {})})
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done

    return of


def line_of(source, mark):
    return (HEAD + source).splitlines().index(mark) + 1


def check_waits(done, passes=1):
    """Every next() that the program timed is one record, lies within what the program saw, and holds the batch's sleep."""
    returned = [call for call in done.trace.calls("LoaderNext") if not call.failed]
    own = done.result
    assert len(returned) == len(own) > 0
    for call, (began, ended) in zip(returned, own):
        assert began - 1000 <= call.begin_ns <= call.end_ns <= ended + 1000
        assert call.end_ns - call.begin_ns >= SLEEP_NS - 1000
    assert [call.b for call in returned] == list(range(len(own) // passes)) * passes
    return returned


EAGER = """
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
dataset = _PrefetchDataset()
for epoch in range(2):
    for batch in timed(iter(OwnedIterator(dataset))):
        pass
"""


@pytest.mark.parametrize("method", ["__next__", "get_next", "get_next_as_optional"])
def test_eager_iterator_of_tf_data(run, method):
    source = EAGER
    if method != "__next__":
        source = source.replace("timed(iter(OwnedIterator(dataset)))", "ask(OwnedIterator(dataset))")
        source = f"""
def ask(iterator):
    for i in range(6):
        began = time.monotonic_ns()
        iterator.{method}()
        waits.append((began, time.monotonic_ns()))
        yield i
""" + source  # fmt: skip
    done = run(source)
    check_waits(done, passes=2)
    (loader,) = {row["id"]: row for row in done.trace.tables("LoaderInfo")}.values()
    assert loader["framework"] == "tf.data"
    assert loader["class_name"] == "_PrefetchDataset"
    assert loader["dataset"] == "Prefetch < Batch"
    assert loader["batch_size"] == 4
    assert loader["num_workers"] == -1
    mark = next(line for line in (HEAD + source).splitlines() if "OwnedIterator(dataset)" in line)
    assert loader["location"].endswith(f"script.py:{line_of(source, mark)}")
    assert [call.b for call in done.trace.calls("LoaderStart")] == [0, 1]
    assert done.trace.facts()["tensorflow"] == "2.99.0"


def test_iterator_that_a_graph_was_given_is_not_one_more(run):
    source = EAGER + """
traced = OwnedIterator(components=slow(), element_spec=1)
next(traced)
"""
    check_waits(run(source), passes=2)


def test_exception_passes(run):
    done = run("""
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
class Broken(BatchDataset):
    def batches(self):
        yield 1
        raise RuntimeError("broken")
iterator = OwnedIterator(Broken())
next(timed(iterator))
try:
    next(iterator)
except RuntimeError as error:
    assert str(error) == "broken"
else:
    raise AssertionError("no exception")
""")
    assert [call.failed for call in done.trace.calls("LoaderNext")] == [False, True]


def test_iterator_that_cannot_be_made(run):
    done = run(EAGER + """
class Missing:
    def batches(self):
        raise FileNotFoundError("missing")
try:
    OwnedIterator(Missing())
except FileNotFoundError as error:
    assert str(error) == "missing"
else:
    raise AssertionError("no exception")
""")  # fmt: skip
    check_waits(done, passes=2)
    assert len(done.trace.calls("LoaderStart")) == len(done.trace.tables("LoaderInfo")) + 1 == 2


def test_keras_over_tf_data(run):
    source = """
from keras.src.trainers.epoch_iterator import fit
class Mine:
    workers = 3
class Timed(BatchDataset):
    def batches(self):
        for batch in slow():
            yield batch
fit(Mine(), Timed())
"""
    done = run(source)
    loader = done.trace.tables("LoaderInfo")[0]
    assert loader["class_name"] == "Mine (PyDataset, workers=3)"
    assert loader["framework"] == "keras"
    assert loader["location"].endswith(f"script.py:{line_of(source, 'fit(Mine(), Timed())')}")
    assert len([call for call in done.trace.calls("LoaderNext") if not call.failed]) == 6


def test_ray_data(run):
    source = """
from ray.data._internal.block_batching.iter_batches import BatchIterator
for epoch in range(2):
    for batch in timed(iter(BatchIterator(slow(), batch_size=16, prefetch_batches=2))):
        pass
"""
    done = run(source)
    check_waits(done, passes=2)
    (loader,) = done.trace.tables("LoaderInfo")
    assert (loader["framework"], loader["class_name"]) == ("ray", "BatchIterator")
    assert (loader["batch_size"], loader["prefetch_factor"], loader["num_workers"]) == (16, 2, -1)
    assert len([call for call in done.trace.calls("LoaderNext") if call.failed]) == 2  # the end of each epoch


def test_dali(run):
    source = """
from nvidia.dali.plugin.pytorch import DALIClassificationIterator
iterator = DALIClassificationIterator(slow, batch_size=32)
for epoch in range(2):
    for batch in timed(iter(iterator)):
        pass
"""
    done = run(source)
    check_waits(done, passes=2)
    (loader,) = done.trace.tables("LoaderInfo")
    assert (loader["framework"], loader["class_name"]) == ("dali", "DALIClassificationIterator")
    assert loader["batch_size"] == 32


GRAPH = """
import ctypes, os
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
kernel = ctypes.CDLL(os.environ["KERNEL"])
kernel.make_iterator.restype = ctypes.c_void_p
class InKernel(BatchDataset):
    def batches(self):
        self.resource = ctypes.c_void_p(kernel.make_iterator(6, 8))
        return slow()
def execute(resource, answers, count=3):
    for i in range(count):
        began = time.monotonic_ns()
        answers.append(kernel.ask(resource))
        if answers[-1] == 1:
            waits.append((began, time.monotonic_ns()))
    return answers
"""


@pytest.fixture(params=["in memory", "in a register"])
def kernel(request, tmp_path):
    library = tmp_path / f"lib-{request.param.replace(' ', '-')}.so"
    words = ["c++", "-O1", "-fPIC", "-shared", "-pthread", "-o", library, STUBS / "kernel.cpp"]
    subprocess.run(words + (["-DTRIVIAL"] if request.param == "in a register" else []), check=True)
    return {"KERNEL": str(library)}


def test_waits_inside_a_graph(run, kernel):
    """Kernels on other threads: recorded as what the thread that called the graph waited for, when the call returns."""
    done = run(GRAPH + """
step = Function(execute)
dataset = InKernel()
iterator = OwnedIterator(dataset)
assert step(dataset.resource, []) == [1, 1, 1]
assert step(dataset.resource, answers=[], count=4) == [1, 1, 1, 0]
""", kernel)  # fmt: skip
    returned = check_waits(done)
    (loader,) = done.trace.tables("LoaderInfo")
    assert {call.a for call in returned} == {loader["id"]}
    assert loader["dataset"] == "InKernel"
    (start,) = done.trace.calls("LoaderStart")
    assert {call.thread for call in returned} == {start.thread}
    assert len([call for call in done.trace.calls("LoaderNext") if call.failed]) == 1  # the end


def test_iterator_made_inside_a_graph(run, kernel):
    done = run(GRAPH + """
resource = ctypes.c_void_p(kernel.make_iterator(6, 8))
assert Function(execute)(resource, [], count=6) == [1] * 6
""", kernel)  # fmt: skip
    returned = [call for call in done.trace.calls("LoaderNext") if not call.failed]
    assert len(returned) == 6
    (loader,) = done.trace.tables("LoaderInfo")
    assert loader["class_name"] == "tf.data iterator in a graph"


def test_eager_wait_whose_kernel_runs_elsewhere_counts_once(run, kernel):
    done = run(GRAPH + """
class Eager(InKernel):
    def batches(self):
        self.resource = ctypes.c_void_p(kernel.make_iterator(6, 8))
        return (kernel.ask(self.resource) for i in range(6))
for batch in timed(OwnedIterator(Eager())):
    assert batch == 1
Function(execute)(None, [], count=0)
""", kernel)  # fmt: skip
    check_waits(done)


def test_loop_over_a_dataset_in_one_kernel_is_said(run, kernel):
    done = run(GRAPH + """
assert kernel.reduce(ctypes.c_void_p(5)) == kernel.reduce(ctypes.c_void_p(6)) == 1
""", kernel)  # fmt: skip
    assert done.trace.state("tf.data loop") == "Unavailable"
    assert "are not recorded" in done.trace.source("tf.data loop")["text"]


@pytest.fixture
def caller(kernel, tmp_path):
    """A library that calls TensorFlow's functions and says nowhere who defines them."""
    library = tmp_path / "libcaller.so"
    words = ["c++", "-O1", "-fPIC", "-shared", "-pthread", "-DCALLER", "-o", library, STUBS / "kernel.cpp"]
    subprocess.run([*words, "-Wl,-z,lazy", *(["-DTRIVIAL"] if kernel["KERNEL"].endswith("in-a-register.so") else [])], check=True)
    return {**kernel, "CALLER": str(library)}


CALLER = """
import ctypes, os
dlopen = ctypes.CDLL(None).dlopen  # lazy: ctypes itself binds at once
dlopen.restype = ctypes.c_void_p
caller = ctypes.CDLL("caller", handle=dlopen(os.environ["CALLER"].encode(), os.RTLD_LAZY))
"""


def test_definition_that_only_the_loaded_objects_tell_of(run, caller):
    """As in TensorFlow up to 2.10: the caller's library does not depend on the one that defines the symbol, and that one
    is loaded for itself alone."""
    run("import ctypes, os; ctypes.CDLL(os.environ['KERNEL'])" + CALLER + """
assert caller.reduce(ctypes.c_void_p(5)) == 1
""", caller)  # fmt: skip


def test_function_that_nobody_defines_ends_as_without_us(run_both, caller):
    program = [sys.executable, "-c", CALLER + "caller.reduce(None)"]
    plain, watched = run_both(program, env=caller)
    assert watched.returncode == plain.returncode == 127
    symbol = "undefined symbol: _ZN10tensorflow4data15ReduceDatasetOp9DoComputeEPNS_15OpKernelContextE"
    assert symbol in plain.stderr and symbol in watched.stderr


def test_off_by_configuration(run, kernel):
    done = run(EAGER + GRAPH + """
assert Function(execute)(ctypes.c_void_p(kernel.make_iterator(6, 1)), []) == [1, 1, 1]
""", {**kernel, "GPUWATCH_TRACE": "cuda"})  # fmt: skip
    assert done.trace.all_calls == []


@pytest.mark.parametrize(
    "pipeline, cause, advice",
    [
        ("Batch Map Range", "dataloader-workers", "map(..., num_parallel_calls=tf.data.AUTOTUNE)"),
        ("Batch ParallelMap Range", "dataloader-prefetch", ".prefetch(tf.data.AUTOTUNE)"),
        ("Prefetch Batch ParallelMap Range", "input-cacheable", ".cache()"),
    ],
)
def test_fix_in_the_words_of_tf_data(inject, tmp_path, pipeline, cause, advice):
    source = """
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
class Stage:
    def batches(self):
        return slow(40, 4)
stage = None
for name in reversed(sys.argv[1].split()):
    stage = type(f"_{name}Dataset", (Stage,), {"_input_dataset": stage})()
for batch in timed(OwnedIterator(stage)):
    pass
"""
    script = tmp_path / "script.py"
    script.write_text(HEAD + source + TAIL)
    done = inject([sys.executable, script, pipeline], env={"PYTHONPATH": STUBS / "site-packages"}, first=True)
    report = done.report()
    assert report["verdict"]["id"] == "input-bound"
    (finding,) = report["findings"]
    assert finding["id"] == cause
    assert advice in finding["fix"]["summary"]
    assert finding["fix"]["location"].endswith(f"script.py:{line_of(source, 'for batch in timed(OwnedIterator(stage)):')}")
    assert any("Waiting for tf.data is measured" in limit for limit in report["limits"])
    (loader,) = report["ranks"][0]["loaders"]
    assert (loader["framework"], loader["batches"], loader["num_workers"]) == ("tf.data", 40, None)
    own_s = sum(ended - began for began, ended in json.loads(done.stdout.splitlines()[-1])) / 1e9
    assert loader["wait_s"] == pytest.approx(own_s, rel=0.005, abs=0.0002 * 40)


PIPELINE = """
from tensorflow.python.data.ops.dataset_ops import DatasetV2
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.ops import script_ops
def busy(index):
    until = time.thread_time() + 4e-3
    while time.thread_time() < until:
        pass
    return index
def asleep(index):
    time.sleep(4e-3)
    return index
def generate():
    for index in range(240):
        yield busy(index)
"""


def locations(done):
    (loader,) = {row["id"]: row for row in done.trace.tables("LoaderInfo")}.values()
    return loader, [line.rpartition("/")[2] for line in loader["stages"].splitlines()]


def test_lines_of_the_stages_of_a_pipeline(run):
    source = PIPELINE + """
dataset = DatasetV2.range(24)
dataset = dataset.map(
    lambda index: script_ops.py_function(asleep, [index]))
dataset = dataset.batch(4)
dataset = dataset.prefetch(1)
for batch in timed(OwnedIterator(dataset)):
    pass
"""
    loader, lines = locations(run(source))
    assert loader["dataset"] == "Prefetch < Batch < Map (tf.py_function) < Range"
    marks = ["dataset = dataset.prefetch(1)", "dataset = dataset.batch(4)", "dataset = dataset.map(", "dataset = DatasetV2.range(24)"]
    assert lines == [f"script.py:{line_of(source, mark)}" for mark in marks]
    assert loader["code"].endswith(f"script.py:{line_of(source, 'def asleep(index):')} asleep")


def incomplete(done):
    return {reason.removeprefix("incomplete: "): count for reason, count in done.trace.losses().items()}


def test_stages_that_were_forgotten_are_counted(run):
    source = PIPELINE + """
dataset = DatasetV2.range(24)
others = [DatasetV2.range(1) for _ in range(300)]
dataset = dataset.batch(4)
for batch in timed(OwnedIterator(dataset)):
    pass
"""
    done = run(source)
    loader, lines = locations(done)
    assert loader["dataset"] == "Batch < Range"
    assert lines == [f"script.py:{line_of(source, 'dataset = dataset.batch(4)')}", ""]
    assert incomplete(done) == {"stages of tf.data pipelines lack their line: more than 256 were constructed": 1}


def test_a_long_pipeline_says_that_it_is_cut(run):
    source = PIPELINE + """
dataset = DatasetV2.range(24)
for _ in range(16):
    dataset = dataset.prefetch(1)
for batch in timed(OwnedIterator(dataset)):
    pass
"""
    done = run(source)
    assert locations(done)[0]["dataset"] == " < ".join(["Prefetch"] * 16)
    assert incomplete(done) == {"tf.data pipelines are described by their last 16 stages": 1}


def test_python_in_a_dataset_within_a_stage_is_that_stages(run):
    source = PIPELINE + """
def slowly(index):
    time.sleep(8e-3)
    return index
dataset = DatasetV2.range(2).interleave(lambda _: DatasetV2.range(6).map(lambda i: script_ops.numpy_function(slowly, [i])))
for batch in timed(OwnedIterator(dataset)):
    pass
"""
    loader, lines = locations(run(source))
    assert loader["dataset"] == "Interleave (tf.numpy_function) < Range"
    assert loader["code"].endswith(" slowly")


@pytest.mark.parametrize(
    "pipeline, cause, advice, mark",
    [
        ("range(240).map(lambda i: script_ops.py_function(busy, [i]))", "input-decode", "Replace tf.py_function with TensorFlow operations", "stage = DatasetV2."),
        ("range(240).map(lambda i: script_ops.numpy_function(busy, [i]), 4)", "input-decode", "Replace tf.numpy_function", "stage = DatasetV2."),
        ("range(240).map(lambda i: script_ops.py_function(asleep, [i]))", "dataloader-workers", "Use map(..., num_parallel_calls=tf.data.AUTOTUNE)", "stage = DatasetV2."),
        ("from_generator(generate)", "dataloader-workers", "Make the generator's samples in several processes", "stage = DatasetV2."),
        ("range(240).map(lambda i: busy, 4)", "dataloader-prefetch", "Add .prefetch(tf.data.AUTOTUNE)", "batches = stage.batch(2)"),
    ],
)  # fmt: skip
def test_fix_at_the_line_of_the_stage(inject, tmp_path, pipeline, cause, advice, mark):
    source = PIPELINE + f"""
stage = DatasetV2.{pipeline}
batches = stage.batch(2)
for batch in timed(OwnedIterator(batches)):
    pass
"""  # fmt: skip
    script = tmp_path / "script.py"
    script.write_text(HEAD + source + TAIL)
    done = inject([sys.executable, script], env={"PYTHONPATH": STUBS / "site-packages"}, first=True)
    assert done.returncode == 0, done.stderr
    (finding,) = [finding for finding in done.report()["findings"] if finding["id"] == cause]
    assert finding["fix"]["summary"].startswith(advice)
    expected = next(number for number, line in enumerate((HEAD + source).splitlines(), 1) if line.startswith(mark))
    assert finding["fix"]["location"].endswith(f"script.py:{expected}")
    if "busy, [i]" in pipeline:
        assert "calls the Python function busy" in finding["title"]


TRAINER = """
import torch
from transformers.trainer import Trainer
from transformers.training_args import TrainingArguments
class Samples:
    def __len__(self):
        return 40
    def __getitem__(self, index):
        time.sleep(2e-3)
        return index
"""


def settings_line(inject, tmp_path, source, mark):
    script = tmp_path / "script.py"
    script.write_text(HEAD + TRAINER + source)
    done = inject([sys.executable, script], env={"PYTHONPATH": f"{STUBS / 'site-packages'}:{STUBS.with_name('stub_torch')}"}, first=True)
    assert done.returncode == 0, done.stderr
    report = done.report()
    (loader,) = report["ranks"][0]["loaders"]
    assert loader["location"].endswith(f"script.py:{line_of(TRAINER + source, mark)}")
    return loader, report


def test_settings_of_a_trainer_are_where_the_user_makes_them(inject, tmp_path):
    source = """
arguments = TrainingArguments("out", dataloader_num_workers=1)
trainer = Trainer(lambda batch: None, arguments, Samples())
trainer.train()
"""
    loader, report = settings_line(inject, tmp_path, source, 'arguments = TrainingArguments("out", dataloader_num_workers=1)')
    assert loader["framework"] == "transformers"
    (finding,) = [finding for finding in report["findings"] if finding["id"] == "dataloader-workers"]
    assert "dataloader_num_workers=" in finding["fix"]["summary"]
    assert finding["fix"]["location"] == loader["location"]


def test_settings_of_a_dataclass_of_the_users(inject, tmp_path):
    """Its __init__ is text that dataclasses compiles: "<string>" is no line of the user's."""
    source = """
from dataclasses import dataclass
@dataclass
class Mine(TrainingArguments):
    warmup: int = 3
arguments = Mine("out")
Trainer(lambda batch: None, arguments, Samples()).train()
"""
    settings_line(inject, tmp_path, source, 'arguments = Mine("out")')


def test_loader_that_the_users_trainer_makes_is_on_its_line(inject, tmp_path):
    source = """
class Mine(Trainer):
    def get_train_dataloader(self):
        return torch.utils.data.DataLoader(self.train_dataset, batch_size=4)
Mine(lambda batch: None, TrainingArguments("out"), Samples()).train()
"""
    settings_line(inject, tmp_path, source, "        return torch.utils.data.DataLoader(self.train_dataset, batch_size=4)")


UNSEEN = """
import os
{imports}
def batches():
    while True:
        until = time.thread_time() + 8e-3
        while time.thread_time() < until:
            pass
        yield 1
@{jit}
def step(batch):
    return batch
def train(seconds):
    began = time.monotonic()
    for batch in batches():
        step(batch)
        if time.monotonic() - began > seconds:
            break
"""
JAX = UNSEEN.format(imports="import jax", jit="jax.jit")
TENSORFLOW = UNSEEN.format(
    imports="import tensorflow\nfrom tensorflow.python.eager.polymorphic_function.polymorphic_function import Function", jit="Function"
)


@pytest.fixture
def run_unseen(inject, tmp_path):
    def of(source):
        script = tmp_path / "script.py"
        script.write_text(HEAD + source)
        done = inject([sys.executable, script], env={"PYTHONPATH": STUBS / "site-packages"})
        assert done.returncode == 0, done.stderr
        return done

    return of


# What takes the time may be input or computing: nothing in the stack tells.
ANY_WORK = """
def work():
    until = time.thread_time() + 8e-3
    while time.thread_time() < until:
        pass
began = time.monotonic()
while time.monotonic() - began < 6:
    step(1)
    work()
"""


@pytest.mark.parametrize("source, framework", [(JAX, "JAX"), (TENSORFLOW, "TensorFlow")], ids=["jax", "tensorflow"])
def test_job_whose_steps_are_not_seen_leaves_a_trace_that_says_so(run_unseen, source, framework):
    done = run_unseen(source + ANY_WORK)
    report = done.report()
    assert report["verdict"]["id"] == "cannot-tell"
    assert f" ran {framework} for " in report["verdict"]["sentence"]
    assert "work (" in report["verdict"]["sentence"]
    (rank,) = report["ranks"]
    assert rank["framework"].startswith(framework.lower())
    assert rank["steps"]["count"] == 0
    place = rank["training_time"][0]
    assert place["function"] == "work"
    assert place["samples"] >= 10
    first = (HEAD + source + ANY_WORK).splitlines().index("def work():") + 1
    assert first < int(place["location"].rpartition(":")[2]) <= first + 3
    assert any("no loader that gpuwatch knows" in limit for limit in report["limits"])
    assert report["findings"] == []
    text = done.analyze().stdout
    assert "where the training thread was" in text and "CPU cores used" in text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the stacks of older versions do not tell which function is a generator")
@pytest.mark.parametrize("source", [JAX, TENSORFLOW], ids=["jax", "tensorflow"])
def test_generator_makes_the_data_where_steps_are_not_seen(run_unseen, source):
    report = run_unseen(source + "train(6)\n").report()
    assert report["verdict"]["id"] == "input-bound"
    assert report["ranks"][0]["steps"]["count"] == 0
    (finding,) = report["findings"]
    assert finding["id"] == "input-decode"
    assert finding["prediction"] is None
    first = (HEAD + source).splitlines().index("def batches():") + 1
    assert first < int(finding["fix"]["location"].rpartition(":")[2]) <= first + 5


def test_job_whose_steps_are_not_seen_goes_on_after_a_fork(run_unseen):
    done = run_unseen(JAX + """
train(1)
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
train(5)
""")  # fmt: skip
    assert done.report()["ranks"][0]["training_time"][0]["function"] == "batches"
    assert len(done.traces) == 1


def test_job_that_forks_all_the_time_is_found_all_the_same(run_unseen):
    """Every fork ends the thread that waits for two seconds to pass."""
    done = run_unseen(JAX + """
step(1)
began = time.monotonic()
while time.monotonic() - began < 4:
    next(batches())
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
""")  # fmt: skip
    assert done.report()["verdict"]["id"] == "cannot-tell"


@pytest.mark.parametrize(
    "rest", ["train(0.5)", "time.sleep(5)", "step(1); time.sleep(5)"], ids=["short", "compiles nothing more", "idle"]
)
def test_process_that_looks_at_a_framework_leaves_no_trace(run_unseen, rest):
    done = run_unseen(JAX + rest + "\n")
    assert done.traces == [] and not done.out.exists()


def test_process_that_computes_without_compiling_leaves_no_trace(run_unseen):
    assert run_unseen(JAX.replace("@jax.jit\n", "") + "train(5)\n").traces == []


def test_loader_that_comes_later_is_recorded_as_ever(run_unseen):
    """The recording is the loader's: no samples of a thread that was watched before."""
    done = run_unseen(JAX + """
train(0.3)
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
for _ in range(40):
    for batch in OwnedIterator(BatchDataset()):
        step(batch)
""")  # fmt: skip
    report = done.report()
    assert report["verdict"]["id"] == "input-bound"
    assert report["ranks"][0]["framework"].startswith("jax")
