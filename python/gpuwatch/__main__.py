# SPDX-License-Identifier: Apache-2.0
"""python -m gpuwatch export: a report in the format of another tool."""

import argparse
import sys

import gpuwatch
from gpuwatch import export


def uuid_of_rank(words):
    """"0=GPU-5cb1..." as (0, "GPU-5cb1...")"""
    rank, equals, uuid = words.partition("=")
    if not (rank.isdigit() and equals and uuid):
        raise argparse.ArgumentTypeError(f"{words!r} is not RANK=UUID, as in 0=GPU-5cb1b6b1-…")
    return int(rank), uuid


def arguments():
    parser = argparse.ArgumentParser(prog="python -m gpuwatch", description="Reports of gpuwatch in the formats of other tools.")
    commands = parser.add_subparsers(dest="command", metavar="export")
    commands.required = True
    command = commands.add_parser("export", help="write a report as Parquet, OpenMetrics text or TensorBoard events")
    command.add_argument("traces", nargs="*", metavar="TRACE", help="run directories or trace files (default: the newest run here)")
    command.add_argument("--format", required=True, choices=("parquet", "openmetrics", "tensorboard"))
    command.add_argument("-o", "--out", required=True, help="the file (openmetrics) or the folder (parquet, tensorboard) to write")
    command.add_argument("--program", help="the command gpuwatch (default: the one of this wheel, else of the PATH)")
    words = "openmetrics: the UUID of a rank's GPU, as a label"
    command.add_argument("--uuid", action="append", default=[], type=uuid_of_rank, metavar="RANK=UUID", help=words)
    return parser.parse_args()


def write(options):
    report = gpuwatch.read(options.traces, program=options.program, step_times=options.format != "openmetrics")
    if options.format == "parquet":
        return export.write_parquet(report, options.out)
    if options.format == "tensorboard":
        return export.write_tensorboard(report, options.out)
    return export.write_openmetrics(report, options.out, dict(options.uuid))


def main():
    try:
        print(*write(arguments()), sep="\n")
    except gpuwatch.Error as error:
        sys.exit(f"gpuwatch: {error}")


if __name__ == "__main__":
    main()
