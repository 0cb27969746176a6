# SPDX-License-Identifier: Apache-2.0
"""Unusual ways of importing, and what a program could notice of the wrappers."""

import re
import shutil
import subprocess
import sys

import pytest
from conftest import STUB

pytestmark = pytest.mark.beside_others

TRAIN = """
import torch
loader = torch.utils.data.DataLoader(list(range(12)), batch_size=4)
count = 0
for batch in loader:
    count += 1
import json
print(json.dumps({"steps": count}))
"""


def check(watched):
    assert watched.returncode == 0, watched.stderr
    assert watched.stderr == ""
    returned = [call for call in watched.trace.calls("LoaderNext") if not call.failed]
    assert len(returned) == watched.result["steps"] == 3
    assert len([call for call in watched.trace.calls("Fetch") if not call.failed]) == 3


IMPORTS = {
    "finder of the user's in front": """
import sys
class Finder:
    asked = []
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        cls.asked.append(name)
        return None
sys.meta_path.insert(0, Finder)
import torch
assert Finder.asked.count("torch.utils.data.dataloader") == 1, Finder.asked
""",
    "finder of the user's behind": """
import sys
class Finder:
    asked = []
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        cls.asked.append(name)
        return None
sys.meta_path.insert(len(sys.meta_path) - 1, Finder)
import torch
assert Finder.asked.count("torch.utils.data.dataloader") == 1, Finder.asked
""",
    "sys.meta_path replaced": "import sys; sys.meta_path = list(sys.meta_path); import torch",
    "import fails, then works": """
import builtins, sys
true_import = builtins.__import__
def failing(name, *args, **kwargs):
    if name == "itertools" and "torch.utils.data.dataloader" in sys.modules:
        raise ImportError("not today")
    return true_import(name, *args, **kwargs)
builtins.__import__ = failing
try:
    import torch
except ImportError:
    pass
else:
    raise AssertionError("was to fail")
builtins.__import__ = true_import
for name in [name for name in sys.modules if name.startswith("torch")]:
    del sys.modules[name]
""",
    "module imported anew": """
import sys
import torch
for name in [name for name in sys.modules if name.startswith("torch")]:
    del sys.modules[name]
""",
    "module reloaded": "import importlib, torch, torch.utils.data.dataloader as m; importlib.reload(m); torch.utils.data.DataLoader = m.DataLoader",
    "many threads import at once": """
import threading
threads = [threading.Thread(target=__import__, args=("torch",)) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
""",
    "a busy thread holds the interpreter": """
import threading
stop = False
def spin():
    while not stop:
        pass
thread = threading.Thread(target=spin); thread.start()
import torch
stop = True
thread.join()
""",
    "source only read, never imported": "open({stub!r} + '/torch/__init__.py').read()",
}


@pytest.mark.parametrize("preamble", IMPORTS.values(), ids=IMPORTS.keys())
def test_import(preamble, run_script):
    check(run_script(preamble.replace("{stub!r}", repr(str(STUB))) + TRAIN, torch="stub"))


def test_traceback_of_a_failing_import_is_the_same(run_plain, run_watched, tmp_path):
    """No frame of ours between importlib and the module."""
    package = tmp_path / "torch" / "optim"
    package.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("from . import optim\n")
    (package / "__init__.py").write_text("from . import optimizer\n")
    (package / "optimizer.py").write_text("raise RuntimeError('broken')\n")
    command, env = [sys.executable, "-c", "import torch"], {"PYTHONPATH": str(tmp_path)}
    plain = run_plain(command, env=env)
    watched = run_watched(command, env=env)
    assert plain.returncode == watched.returncode == 1
    assert "RuntimeError: broken" in plain.stderr
    assert watched.stderr == plain.stderr


def test_unknown_torch_says_what_is_missing(run_watched, tmp_path):
    """A loader whose parts have other names is not understood; the optimizer still is, and the trace says so."""
    package = tmp_path / "torch" / "utils" / "data"
    package.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("from .utils.data import dataloader\nfrom . import optim\n")
    (tmp_path / "torch" / "utils" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "dataloader.py").write_text("class NewLoader: pass\n")
    (tmp_path / "torch" / "optim").symlink_to(STUB / "torch" / "optim")
    source = "import torch; o = torch.optim.SGD([0.0]); [o.step(1.0) for _ in range(5)]"
    watched = run_watched([sys.executable, "-c", source], env={"PYTHONPATH": str(tmp_path)})
    assert (watched.returncode, watched.stderr) == (0, "")
    assert len(watched.trace.calls("OptimizerStep")) == 5
    missing = "waits for the DataLoader, epochs of persistent workers after the first, indices sent to workers, batches received from workers"
    assert watched.trace.state("python") == "Partial"
    assert watched.trace.source("python")["text"] == f"on, but this PyTorch version does not show: {missing}"


def test_source_switched_off(run_watched, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TRAIN)
    watched = run_watched([sys.executable, script], env={"PYTHONPATH": str(STUB), "GPUWATCH_TRACE": "io,cuda"})
    assert watched.result["steps"] == 3
    assert not watched.trace.all_calls, "a loader that nobody watches is no evidence"


def test_two_loaders_and_a_nested_one(run_script):
    watched = run_script(
        """
import json, torch
Loader = torch.utils.data.DataLoader

class Nested:
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return [batch for batch in Loader([1, 2, 3, 4], batch_size=2)]

def train():
    for first, second in zip(Loader(list(range(8)), batch_size=2), Loader(list(range(4)), batch_size=1)):
        yield first + second

steps = len(list(train()))
for batch in Loader(Nested(), batch_size=1, num_workers=1):
    assert batch == [[[1, 2], [3, 4]]], batch
print(json.dumps({"steps": steps}))
""",
        torch="stub",
    )
    assert (watched.returncode, watched.stderr) == (0, "")
    trace = watched.trace
    loaders = {(row["location"].rsplit(":", 1)[1], row["batch_size"]): row["id"] for row in trace.tables("LoaderInfo")}
    assert loaders.keys() == {("9", 2), ("12", 2), ("12", 1), ("16", 1)}
    returned = [call for call in trace.calls("LoaderNext") if not call.failed]
    main = trace.tables("Process")[0]["pid"]
    for batch_size in (2, 1):
        mine = [call for call in returned if call.a == loaders["12", batch_size]]
        assert {call.pid for call in mine} == {main}
        assert [call.b for call in mine] == [0, 1, 2, 3]
    fetches = [call for call in trace.calls("Fetch") if not call.failed]
    assert all(call.a for call in fetches)
    # In the worker: two fetches for the parent's loader, and within each two for a loader of its own.
    worker = [call for call in fetches if call.pid != main]
    assert len(worker) == 2 + 4
    assert [call.b for call in worker if call.a == loaders["16", 1]] == [0, 1]


OLD_OPTIMIZER = """
import functools, pickle, weakref

class Optimizer:
    # As in PyTorch 1.13: no global hooks; the class's step is replaced once by a wrapper that finds it in `func`.
    def __init__(self):
        self._hook_for_profile()
    def __setstate__(self, state):
        self.__dict__.update(state)
        self._hook_for_profile()
    def _hook_for_profile(self):
        def profile_hook_step(func):
            @functools.wraps(func)
            def wrapper(*args, **kwargs):
                obj, *_ = args
                return func(*args, **kwargs)
            return wrapper
        if not getattr(self.__class__.step, "hooked", None):
            self.__class__.step = profile_hook_step(self.__class__.step)
            self.__class__.step.hooked = True

class SGD(Optimizer):
    def step(self, gradient, scale=1):
        if gradient is None:
            raise ValueError("no gradient")
        return gradient * scale

class Other(SGD):
    def step(self, gradient):
        return super().step(gradient, scale=2)
"""


def test_optimizer_without_global_hooks(run_both, tmp_path):
    """PyTorch before 2.0. A scheduler takes step apart, tracebacks and signatures stay what they are."""
    package = tmp_path / "torch" / "optim"
    package.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("from . import optim\n")
    (package / "__init__.py").write_text("from .optimizer import *\n")
    (package / "optimizer.py").write_text(OLD_OPTIMIZER)
    source = """
import inspect, pickle, torch, traceback
first, second = torch.optim.SGD(), torch.optim.Other()
for optimizer in (first, pickle.loads(pickle.dumps(first)), second):
    function, owner = optimizer.step.__func__, type(optimizer)
    print(inspect.signature(owner.step), owner.step.__wrapped__.__name__, [function.__get__(optimizer, owner)(1.0) for _ in range(3)])
try:
    first.step(None)
except ValueError:
    print(traceback.format_exc())
"""
    command, env = [sys.executable, "-c", source], {"PYTHONPATH": str(tmp_path)}
    plain, watched = run_both(command, env=env)
    assert (watched.returncode, watched.stdout, watched.stderr) == (0, plain.stdout, "")
    assert watched.trace.state("python") == "On"
    steps = watched.trace.calls("OptimizerStep")
    assert [call.failed for call in steps] == [False] * 9 + [True]
    assert len({call.a for call in steps}) == 3 and steps[-1].a == steps[0].a


# What a version may lack, and what of three passes over a loader with workers is left then.
LACKING = {
    "fetches": ("_MapDatasetFetcher", {"LoaderNext", "LoaderStart", "IndexSent", "BatchReceived", "Collate"}),
    "indices sent to workers": ("_try_put_index", {"LoaderNext", "LoaderStart", "BatchReceived", "Fetch", "Collate"}),
    "batches received from workers": ("_try_get_data", {"LoaderNext", "LoaderStart", "IndexSent", "Fetch", "Collate"}),
    "epochs of persistent workers after the first": ("_reset", {"LoaderNext", "LoaderStart", "IndexSent", "BatchReceived", "Fetch", "Collate"}),
}


@pytest.mark.parametrize("missing", LACKING)
def test_version_with_another_name(missing, run_watched, tmp_path):
    """One method has a new name: the source says so, the rest is seen as before, the program runs."""
    shutil.copytree(STUB / "torch", tmp_path / "torch")
    old, left = LACKING[missing]
    for path in (tmp_path / "torch" / "utils" / "data").rglob("*.py"):
        path.write_text(re.sub(rf"\b{old}\b", old + "_anew", path.read_text()))
    source = """
import json, torch
steps = 0
loader = torch.utils.data.DataLoader(list(range(12)), batch_size=4, num_workers=2, persistent_workers=True)
for _ in range(3):
    steps += len(list(loader))
print(json.dumps({"steps": steps}))
"""
    watched = run_watched([sys.executable, "-c", source], env={"PYTHONPATH": str(tmp_path)})
    assert (watched.returncode, watched.stderr) == (0, "")
    assert watched.trace.state("python") == "Partial"
    assert watched.trace.source("python")["text"] == f"on, but this PyTorch version does not show: {missing}"
    seen = {call.op_class for call in watched.trace.all_calls}
    every = {"LoaderNext", "LoaderStart", "IndexSent", "BatchReceived", "Fetch", "Collate"}
    assert seen & every == left
    assert len([call for call in watched.trace.calls("LoaderNext") if not call.failed]) == watched.result["steps"] == 9


def test_optimizer_step_that_raises(run_script):
    watched = run_script(
        """
import json, torch
class Broken(torch.optim.SGD):
    def update(self, gradient):
        raise ValueError
good, bad = torch.optim.SGD([0.0]), Broken([0.0])
for _ in range(10):
    try:
        bad.step(1.0)
    except ValueError:
        pass
    good.step(1.0)
print(json.dumps({"steps": 10}))
""",
        torch="stub",
    )
    assert (watched.returncode, watched.stderr) == (0, "")
    steps = watched.trace.calls("OptimizerStep")
    assert len(steps) == 10 and len({call.a for call in steps}) == 1
    assert all(earlier.end_ns <= later.begin_ns for earlier, later in zip(steps, steps[1:]))


def test_killed_without_a_word(run_script):
    """os._exit() in the middle of a pass: what was recorded until then is there."""
    watched = run_script(TRAIN.replace("    count += 1", "    count += 1\n    if count == 2: import os; os._exit(5)"), torch="stub")
    assert watched.returncode == 5
    assert [call.b for call in watched.trace.calls("LoaderNext")] == [0, 1]


def test_garbage_collection_is_seen(run_script):
    watched = run_script(
        TRAIN.replace("    count += 1", "    count += 1\n    import gc; keep = [[i] for i in range(200000)]; gc.collect()"), torch="stub"
    )
    pauses = watched.trace.calls("GarbageCollection")
    assert len(pauses) >= 3
    assert all(call.end_ns - call.begin_ns >= 90e3 for call in pauses)


def test_real_torch_looks_untouched(run_script):
    """What libraries read from torch: signatures, pickles, sources."""
    watched = run_script(
        """
import inspect, json, pickle, sys
import torch
from torch.utils.data import DataLoader
assert "num_workers" in inspect.signature(DataLoader.__init__).parameters
assert "num_workers" in inspect.signature(DataLoader).parameters
assert pickle.loads(pickle.dumps(torch.save)) is torch.save
assert "pickle_module" in inspect.getsource(torch.save)
assert pickle.loads(pickle.dumps(DataLoader([1, 2]))).dataset == [1, 2]
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
assert pickle.loads(pickle.dumps(optimizer)).defaults["lr"] == 0.1
import torch.utils.data.dataloader as module
assert list(inspect.signature(module._MultiProcessingDataLoaderIter._reset).parameters)[-1] == "first_iter"
iterator = iter(DataLoader(list(range(4)), batch_size=2))
assert vars(iterator).keys() == vars(iter(DataLoader([1]))).keys()
assert [name for name in sys.modules if "gpuwatch" in name] == []
print(json.dumps({"steps": 0}))
"""
    )
    assert (watched.returncode, watched.stderr) == (0, "")


PATCHES = """
import copy, functools, inspect, pickle, types, weakref
import torch
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as module
from torch.utils.data._utils import fetch

def forward(kept, original):
    @functools.wraps(original)
    def patched(self, *args, **kwargs):
        return getattr(self, kept)(*args, **kwargs)
    return patched

classes = [DataLoader, module._BaseDataLoaderIter, module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter,
           fetch._BaseDatasetFetcher, fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher]
methods = [(owner, name) for owner in classes for name, value in list(vars(owner).items())
           if inspect.isroutine(value) and name not in ("__getattr__", "__setattr__", "__del__", "__class_getitem__") and not isinstance(value, (staticmethod, classmethod))]
for owner, name in methods:
    method = getattr(owner, name)
    print(owner.__name__, method.__name__, method.__qualname__, method.__module__, inspect.signature(method), len(inspect.getsource(method)))
    assert pickle.loads(pickle.dumps(method)) is method and copy.deepcopy(method) is method
    assert weakref.ref(method)() is method and {method: 1}[getattr(owner, name)] == 1
    print(repr(method).split(" at 0x")[0])
    assert getattr(method, "mark", None) is None
    method.mark = 7
    assert getattr(owner, name).mark == 7
    del method.mark
    assert callable(types.FunctionType(method.__code__, {}, closure=method.__closure__))
# As two libraries would, one after the other; then what the first kept goes by a third name.
for library in ("one", "two"):
    for owner, name in methods:
        kept = f"_kept_{library}_{owner.__name__}_{name}"
        setattr(owner, kept, getattr(owner, name))
        if library == "one":
            setattr(owner, kept + "_again", getattr(owner, kept))
        setattr(owner, name, forward(kept + "_again" * (library == "one"), getattr(owner, name)))
for workers in (0, 2):
    loader = DataLoader(list(range(10)), batch_size=4, num_workers=workers, persistent_workers=workers > 0)
    for epoch in range(2):
        print([batch.tolist() for batch in loader])
class Other:
    length = module._BaseDataLoaderIter.__next__
try:
    Other().length()
except AttributeError as error:
    print(error)
"""


def test_patches_of_other_libraries_bind_as_without_us(run_plain, injected_environment, tmp_path):
    """SpeechBrain keeps `Iter.__init__` as `Iter.__old_init__`; its jobs ended with a TypeError."""
    script = tmp_path / "script.py"
    script.write_text(PATCHES)
    plain = run_plain([sys.executable, script])
    watched = subprocess.run([sys.executable, script], env=injected_environment, capture_output=True, text=True, timeout=180)
    assert plain.returncode == 0, plain.stderr
    assert (watched.returncode, watched.stdout, watched.stderr) == (0, plain.stdout, plain.stderr)
    assert plain.stdout.count("[0, 1, 2, 3]") == 4


def test_compiled_optimizer_step_is_still_traced_by_dynamo(run_plain, injected_environment, tmp_path):
    """Our hooks in the optimizer must not break a full graph that compiles without us."""
    script = tmp_path / "script.py"
    script.write_text("""
import torch
model = torch.nn.Linear(2, 2)
model(torch.ones(1, 2)).sum().backward()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = torch.compile(optimizer.step, backend="eager", fullgraph=True)
step()
print("compiled", round(float(model.weight.sum()), 3) is not None)
""")
    plain = run_plain([sys.executable, script])
    watched = subprocess.run([sys.executable, script], env=injected_environment, capture_output=True, text=True, timeout=180)
    assert (watched.returncode, watched.stdout) == (plain.returncode, plain.stdout), watched.stderr
