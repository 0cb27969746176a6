# SPDX-License-Identifier: Apache-2.0
"""What scripts/frameworks.py runs: a training program for each framework, and what gpuwatch must report."""

from dataclasses import dataclass, field

WORKERS = ("0", "2")


@dataclass
class Case:
    name: str
    program: str
    package: str  # the version of which is printed
    framework: str  # as the report says
    loader: str = "DataLoader"  # its class
    seen: str = "each batch, its workers"
    arguments: tuple = ()
    environment: dict = field(default_factory=dict)
    mark: str = "# loader"  # of the loader's line; "" where the line of the wait is the program's timer
    workers: int = -1  # expected num_workers
    is_inside: bool = False  # the program times something inside the wait, not around it
    starts_apart: bool = False  # the first wait of each epoch is left out: it includes the framework's start-up
    is_exact: bool = True  # must agree within 0.5% or 0.2 ms a batch
    note: str = ""

    @property
    def key(self):
        return " ".join((self.name, *self.arguments))


def torch_cases():
    for workers in WORKERS:
        words = {"arguments": (workers,), "workers": int(workers)}
        yield Case("Lightning", "train_lightning.py", "lightning", "lightning", **words)
        yield Case("Accelerate", "train_accelerate.py", "accelerate", "accelerate", **words, note="one batch ahead of the loop")
        yield Case("Hugging Face Trainer", "train_transformers.py", "transformers", "transformers", **words, environment={"USE_TF": "0"}, note="the line is that of TrainingArguments()")
        yield Case("fastai", "train_fastai.py", "fastai", "fastai", **words, note="steps from batches, because its optimizer is not one of torch's; the line is that of fit()")
        yield Case("timm", "train_timm.py", "timm", "timm", **words)
        yield Case("StatefulDataLoader", "train_stateful.py", "torchdata", "torchdata", "StatefulDataLoader", **words)
        yield Case("WebDataset", "train_webdataset.py", "webdataset", "webdataset", **words)
        yield Case("PyTorch Geometric", "train_geometric.py", "torch_geometric", "torch_geometric", "NodeLoader", **words, note="NodeLoader with a custom sampler; NeighborLoader derives from it")
        yield Case("MONAI", "train_monai.py", "monai", "monai", **words)
        yield Case("MosaicML Streaming", "train_streaming.py", "mosaicml-streaming", "streaming", "StreamingDataLoader", **words)


def other_cases():
    whole = "each wait"
    yield Case("tf.data, eager", "train_tfdata.py", "tensorflow-cpu", "tf.data", "_BatchDataset", whole, mark="")
    yield Case("tf.data in a tf.function", "train_tfdata.py", "tensorflow-cpu", "tf.data", "_BatchDataset", whole, ("graph",), is_exact=False, note="the program's timer runs in the graph and includes its own overhead")
    for per_execution in ("1", "4"):
        yield Case(f"Keras on TensorFlow, tf.data, steps_per_execution={per_execution}", "train_keras.py", "keras", "keras", "_OptionsDataset", whole, ("tfdata", per_execution), {"KERAS_BACKEND": "tensorflow"}, "# fit", is_inside=True, is_exact=False, note="the program times making the batch, not the whole wait")
    yield Case("Keras on TensorFlow, PyDataset", "train_keras.py", "keras", "keras", "Sequence (PyDataset, workers=1)", whole, ("pydataset", "1"), {"KERAS_BACKEND": "tensorflow"}, "# fit", is_inside=True, is_exact=False, note="the program times making the batch; Keras prefetches, so the wait is shorter")
    yield Case("Keras on PyTorch, DataLoader", "train_keras.py", "keras", "keras", arguments=("torchloader", "1"), environment={"KERAS_BACKEND": "torch"}, workers=2, starts_apart=True, note="without the first wait of each epoch, in which Keras creates and drops iterators")
    yield Case("Keras on JAX, tf.data", "train_keras.py", "keras", "keras", "_OptionsDataset", whole, ("tfdata", "1"), {"KERAS_BACKEND": "jax"}, "# fit", is_inside=True, is_exact=False, note="the program times making the batch, not the whole wait")
    yield Case("Ray Data", "train_ray.py", "ray", "ray", "BatchIterator", whole, mark="", starts_apart=True, is_exact=False, note="without the first wait of each epoch, in which Ray starts its executor; the difference is Ray's work after its wait")


NO_LOADER = {
    "memory-mapped tokens (nanoGPT)": "train_tokens.py",
    "environment step (reinforcement learning)": "train_environment.py",
    "generator in the script": "train_generator.py",
}

CASES = [*torch_cases(), *other_cases()]
