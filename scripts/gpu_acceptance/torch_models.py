# SPDX-License-Identifier: Apache-2.0
"""Models and training steps of torch_jobs.py. A job is a function that makes one training step each time it is called."""

import itertools
import json

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

# --- models ------------------------------------------------------------------------------------------------------------


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        same = stride == 1 and inputs == outputs
        self.skip = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )  # fmt: skip

    def forward(self, x):
        return functional.relu(self.body(x) + self.skip(x))


def resnet50(blocks=(3, 4, 6, 3)):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            layers.append(Bottleneck(inputs, width, 2 if stage and not block else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.before_attention(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class LanguageModel(nn.Module):
    """The size of GPT-2 small: 12 layers, 768 wide, 124 million parameters."""

    def __init__(self, layers=12, width=768, heads=12, words=50257, length=512):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        return self.norm(self.blocks(x)) @ self.words.weight.t()


class Mlp(nn.Sequential):
    """Many layers: one launch each, forward and backward."""

    def __init__(self, layers, width):
        super().__init__(*itertools.chain.from_iterable((nn.Linear(width, width), nn.ReLU()) for _ in range(layers)))


# --- training steps ----------------------------------------------------------------------------------------------------


def trainer(model, device, dtype=None, rate=1e-4):
    """train(inputs, targets) -> loss: forward, backward, optimizer. On a CPU `dtype` is ignored: bfloat16 is slow there."""
    dtype = dtype if device.type == "cuda" else None
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def train(inputs, targets):
        with torch.autocast(device.type, dtype, enabled=dtype is not None):
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs.flatten(0, -2).float(), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return train


def images(small, batch, device="cpu"):
    side = 32 if small else 224
    return torch.randn(batch, 3, side, side, device=device), torch.randint(0, 1000, (batch,), device=device)


def image_model(small):
    return resnet50((1, 1, 1, 1) if small else (3, 4, 6, 3))


def resnet_job(device, small):
    train = trainer(image_model(small), device, torch.bfloat16)
    batch = images(small, 2 if small else 64, device)
    return lambda: train(*batch)


def language_job(device, small, compiled=False):
    model = LanguageModel(2, 64, 2, 512, 64) if small else LanguageModel()
    length, words = (64, 512) if small else (512, 50257)
    tokens = torch.randint(0, words, (8, length + 1), device=device)
    train = trainer(torch.compile(model) if compiled else model, device, torch.bfloat16)
    return lambda: train(tokens[:, :-1], tokens[:, 1:])


def tiny_kernels_job(device, small):
    """10 000 kernels a step, one call each, from Python."""
    x = torch.zeros(256, device=device)
    count = 200 if small else 10000

    def step():
        for _ in range(count):
            x.add_(1.0)

    return step


class SlowImages(Dataset):
    """Each sample costs CPU time, as decoding does."""

    def __init__(self, count, small):
        self.count, self.side = count, 32 if small else 224

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image = torch.randn(3, self.side, self.side)
        for _ in range(4):
            image = functional.avg_pool2d(image[None], 3, 1, 1)[0]
        return image, index % 1000


def forever(loader):
    while True:
        yield from loader


def loader_job(device, small):
    """Waits for its loader: two workers for a model that could take more."""
    train = trainer(image_model(True), device, torch.bfloat16)
    batch = 4 if small else 64
    loader = DataLoader(
        SlowImages(4000 * batch, small), batch, num_workers=2, persistent_workers=True, pin_memory=device.type == "cuda"
    )
    batches = forever(loader)

    def step():
        inputs, targets = next(batches)
        train(inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True))

    return step


JOBS = {
    "tiny-kernels": tiny_kernels_job,
    "resnet50": resnet_job,
    "gpt2": language_job,
    "gpt2-compiled": lambda device, small: language_job(device, small, compiled=True),
    "loader-bound": loader_job,
}

# --- jobs with one stall, and its remedy -------------------------------------------------------------------------------


def pageable_copy(device, small, fixed):
    """Batches in pageable memory; remedy: pinned, and copied without waiting."""
    train = trainer(image_model(True), device, torch.bfloat16)
    batches = [images(small, 4 if small else 128) for _ in range(4)]
    if fixed and device.type == "cuda":
        batches = [tuple(part.pin_memory() for part in batch) for batch in batches]
    order = itertools.cycle(batches)
    return lambda: train(*(part.to(device, non_blocking=fixed) for part in next(order)))


def exposed_copy(device, small, fixed):
    """Pinned batches on the compute stream; remedy: the next batch on a separate stream."""
    train = trainer(image_model(True), device, torch.bfloat16)
    batches = [images(small, 4 if small else 256) for _ in range(3)]
    if device.type == "cuda":
        batches = [tuple(part.pin_memory() for part in batch) for batch in batches]
    order = itertools.cycle(batches)
    if not fixed or device.type != "cuda":
        return lambda: train(*(part.to(device, non_blocking=True) for part in next(order)))
    side = torch.cuda.Stream()
    ahead = []

    def fetch():
        with torch.cuda.stream(side):
            ahead.append(tuple(part.to(device, non_blocking=True) for part in next(order)))

    def step():
        if not ahead:
            fetch()
        torch.cuda.current_stream().wait_stream(side)
        batch = ahead.pop()
        for part in batch:
            part.record_stream(torch.cuda.current_stream())
        fetch()
        train(*batch)

    return step


def item_each_step(device, small, fixed):
    """The loss is looked at in each step, then the host works on its log; remedy: every 50 steps."""
    train = trainer(image_model(small), device, torch.bfloat16)
    batch = images(small, 2 if small else 32, device)
    count, seen = itertools.count(), []

    def step():
        loss = train(*batch)
        if not fixed or next(count) % 50 == 0:
            seen.append(loss.item())
            sum(range(100_000))

    return step


def many_launches(device, small, fixed):
    """Small layers, one launch each; remedy: the whole step as one CUDA graph."""
    train = trainer(Mlp(4 if small else 200, 64 if small else 256), device)
    width = 64 if small else 256
    batch = torch.randn(16, width, device=device), torch.randint(0, width, (16,), device=device)
    if not fixed or device.type != "cuda":
        return lambda: train(*batch)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            train(*batch)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train(*batch)
    return graph.replay


def single_precision(device, small, fixed):
    """Matmuls in fp32 without tensor cores; remedy: bfloat16."""
    torch.backends.cuda.matmul.allow_tf32 = False
    model = LanguageModel(2, 64, 2, 512, 64) if small else LanguageModel(layers=6)
    train = trainer(model, device, torch.bfloat16 if fixed else None)
    tokens = torch.randint(0, 512, (4 if small else 8, 65 if small else 513), device=device)
    return lambda: train(tokens[:, :-1], tokens[:, 1:])


def cache_emptied(device, small, fixed):
    """torch.cuda.empty_cache() in each step; remedy: without."""
    train = trainer(image_model(small), device, torch.bfloat16)
    batch = images(small, 2 if small else 32, device)

    def step():
        train(*batch)
        if not fixed:
            torch.cuda.empty_cache()

    return step


class Ready(Dataset):
    """Samples that cost nothing."""

    def __init__(self, count, small):
        self.count, self.sample = count, images(small, 1)[0][0]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.sample, index % 1000


def small_batch(device, small, fixed):
    """A batch that hardly fills the device; remedy: a larger one."""
    train = trainer(image_model(small), device, torch.bfloat16)
    size = 16 if fixed else 2
    loader = DataLoader(Ready(100_000, small), size, num_workers=2, pin_memory=device.type == "cuda")
    batches = forever(loader)

    def step():
        inputs, targets = next(batches)
        train(inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True))

    step.samples = size
    return step


CASES = {
    "pageable-copy": pageable_copy,
    "exposed-copy": exposed_copy,
    "item-each-step": item_each_step,
    "many-launches": many_launches,
    "single-precision": single_precision,
    "cache-emptied": cache_emptied,
    "small-batch": small_batch,
}

# --- with other users of the device ------------------------------------------------------------------------------------


def profiled(device, small, export, around=20, inside=10):
    """Steps before, under and after torch.profiler: how often each kernel is in what it exported."""
    step = resnet_job(device, small)
    activity = torch.profiler.ProfilerActivity
    kinds = [activity.CPU] + ([activity.CUDA] if device.type == "cuda" else [])
    for _ in range(around):
        step()
    with torch.profiler.profile(activities=kinds) as profiler:
        for _ in range(inside):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize()
    profiler.export_chrome_trace(export)
    for _ in range(around):
        step()
    wanted = "kernel" if device.type == "cuda" else "cpu_op"
    with open(export) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("cat") == wanted]
    counts = {}
    for event in events:
        counts[event["name"]] = counts.get(event["name"], 0) + 1
    return {"kernels": counts, "profiled_steps": inside, "steps": 2 * around + inside}


def collective(device):
    """A process group of one rank."""
    import torch.distributed as distributed

    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
    x = torch.ones(1 << 20, device=device)
    for _ in range(50):
        distributed.all_reduce(x)
    if device.type == "cuda":
        torch.cuda.synchronize()
    distributed.destroy_process_group()
    return {"sum": float(x[0])}
