# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, each with one sentence that says what to do."""

import importlib


class Error(Exception):
    """Of this package; the others derive from it."""


class ProgramNotFound(Error):
    """The command gpuwatch, which makes the report, is not installed or cannot be run."""


class TraceError(Error):
    """The program refused the trace; the message is the program's."""


class UnknownSchema(Error):
    """Program and package are of versions that do not fit."""


class MissingPackage(Error, ImportError):
    """A package that this table or file needs."""


def needed(module, extra):
    """Imports a module that only some users need; `extra` is the one of the wheel that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackage(f"this needs {package}, which cannot be imported ({error}): pip install 'gpuwatch-profiler[{extra}]'") from error
