# SPDX-License-Identifier: Apache-2.0
"""Length and causes of each recorded step as TensorBoard events, by tensorboard's writer; a run in TensorBoard for each rank."""

import os
from collections import Counter

from gpuwatch.errors import Error, needed
from gpuwatch.export.private_file import private_folder
from gpuwatch.steps import steps_of

NS_IN_MS, NS_IN_S = 1e6, 1e9


def scalars(times, index):
    """{tag: ms} of a step."""
    yield "gpuwatch/step_ms", times["length_ns"][index] / NS_IN_MS
    for category, values in times["attribution_ns"].items():
        yield f"gpuwatch_causes/{category}_ms", values[index] / NS_IN_MS


def write_events(folder, times):
    event_pb2, summary_pb2 = (needed(f"tensorboard.compat.proto.{name}", "export") for name in ("event_pb2", "summary_pb2"))
    writer = needed("tensorboard.summary.writer.event_file_writer", "export").EventFileWriter(folder)
    start = times["start_unix_ns"] or 0
    for index, (begin, length) in enumerate(zip(times["begin_ns"], times["length_ns"])):
        values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars(times, index)]
        writer.add_event(
            event_pb2.Event(wall_time=(start + begin + length) / NS_IN_S, step=times["first_step"] + index, summary=summary_pb2.Summary(value=values))
        )
    writer.close()


def write_tensorboard(report, folder):
    """Writes events into <folder>/rank<N>; the folder must not exist. Needs read(..., step_times=True); returns the folders."""
    steps = steps_of(report.json)
    if not any(times["length_ns"] for _, times in steps):
        raise Error("this run has no recorded step, which TensorBoard could show")
    needed("tensorboard", "export")
    private_folder(folder, may_exist=False)
    numbers = Counter(rank["rank"] for rank, _ in steps)
    written = []
    for rank, times in steps:
        several = f"-row{rank['row']}" if numbers[rank["rank"]] > 1 else ""
        place = private_folder(os.path.join(os.fspath(folder), f"rank{rank['rank']}{several}"), may_exist=False)
        try:
            write_events(place, times)
        except OSError as error:
            raise Error(f"{place}: events could not be written to their end: {error.strerror or error}") from error
        for file in os.listdir(place):
            os.chmod(os.path.join(place, file), 0o600)
        written.append(place)
    return written
