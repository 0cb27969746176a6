#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training jobs in plain PyTorch with synthetic tensors, for the acceptance run. They do not use gpuwatch.

    torch_jobs.py probe                       PyTorch's version and device, as JSON
    torch_jobs.py resnet50 --steps 20         a job; prints its own step times as JSON
    torch_jobs.py pageable-copy --fixed       a job with a known stall, or with its remedy
    torch_jobs.py serve                       reads "JOB STEPS" lines and answers each with a JSON line

--device cpu tries the scripts where there is no GPU; --small shrinks the models.
"""

import argparse
import json
import sys
import time


def refuse(reason):
    print(json.dumps({"not_run": reason}), flush=True)
    sys.exit(0)


try:
    import torch
except ImportError as error:
    refuse(f"no PyTorch here ({error})")

from torch_models import CASES, JOBS, collective, profiled


def need_device(name):
    if name == "cpu":
        return torch.device("cpu")
    try:
        torch.cuda.init()
        torch.zeros(8, device="cuda").sum().item()
    except (RuntimeError, AssertionError) as error:
        has = "this PyTorch has no CUDA" if not torch.version.cuda else "PyTorch cannot use the device"
        refuse(f"{has} (torch {torch.__version__}: {str(error).splitlines()[0]})")
    return torch.device("cuda")


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


class Clock:
    """Step times by the host's clock and, on a GPU, by an event at each step's end."""

    def __init__(self, device):
        self.device, self.host, self.events = device, [], []

    def mark(self):
        self.host.append(time.perf_counter())
        if self.device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.events.append(event)

    def times(self):
        synchronize(self.device)
        mean_ms = (time.perf_counter() - self.host[0]) * 1e3 / (len(self.host) - 1)
        return {
            "mean_ms": mean_ms,  # until the device has finished
            "host_ms": [(b - a) * 1e3 for a, b in zip(self.host, self.host[1:])],
            "event_ms": [a.elapsed_time(b) for a, b in zip(self.events, self.events[1:])],
        }


def timed_steps(step, count, warm_up, device):
    for _ in range(warm_up):
        step()
    synchronize(device)
    clock = Clock(device)
    clock.mark()
    for _ in range(count):
        step()
        clock.mark()
    return clock.times()


def serve(device, small):
    """Builds a job at its first request. Each block begins with steps that are not timed."""
    steps = {}
    for line in sys.stdin:
        name, count = line.split()
        try:
            warm_up = 2 if name in steps else 5
            if name not in steps:
                steps[name] = JOBS[name](device, small)
            print(json.dumps(timed_steps(steps[name], int(count), warm_up, device)), flush=True)
        except Exception as error:  # other jobs continue
            print(json.dumps({"not_run": f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}"}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["probe", "serve", "profiled", "collective", *JOBS, *CASES])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--fixed", action="store_true", help="apply the remedy of the stall")
    parser.add_argument("--export", help="output file of torch.profiler, for the job `profiled`")
    options = parser.parse_args()
    device = need_device(options.device)
    said = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": str(device)}
    if device.type == "cuda":
        said["name"] = torch.cuda.get_device_name()
    if options.job == "serve":
        return serve(device, options.small)
    if options.job == "profiled":
        said |= profiled(device, options.small, options.export)
    elif options.job == "collective":
        said |= collective(device)
    elif options.job != "probe":
        make = JOBS.get(options.job)
        step = make(device, options.small) if make else CASES[options.job](device, options.small, options.fixed)
        said |= timed_steps(step, options.steps, 5, device)
        said["samples"] = getattr(step, "samples", None)
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
