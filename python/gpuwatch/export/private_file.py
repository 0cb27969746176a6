# SPDX-License-Identifier: Apache-2.0
"""Files that are readable by their owner alone, as traces are: they have the names and paths that a trace has.

A file is made under another name and then renamed, so that neither a link that another user left in a shared folder
nor the mode of an older file takes effect, and a reader never sees half of it."""

import os
import stat
import tempfile
from contextlib import contextmanager

from gpuwatch.errors import Error


@contextmanager
def private_file(path):
    """with private_file(path) as file: a binary file that takes its name when the block ends without an exception."""
    path = os.fspath(path)
    try:
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise Error(f"{path} exists and is not a regular file; choose another name")
        handle, made = tempfile.mkstemp(prefix=".gpuwatch-", dir=os.path.dirname(path) or ".")
    except OSError as error:
        raise Error(f"{path} cannot be written: {error.strerror}") from error
    try:
        with open(handle, "wb") as file:
            yield file
        os.replace(made, path)
    except BaseException as error:
        os.unlink(made)
        if isinstance(error, OSError):
            raise Error(f"{path} could not be written to its end: {error.strerror or error}") from error
        raise


def private_folder(path, may_exist):
    """Makes a folder that only its owner can enter. An older one stays as it is, and must be a folder and no link."""
    path = os.fspath(path)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not may_exist:
            raise Error(f"{path} exists; choose a folder that does not, because TensorBoard would mix both runs") from None
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise Error(f"{path} exists and is not a folder; choose another name") from None
    except OSError as error:
        raise Error(f"{path} cannot be made: {error.strerror}") from error
    return path
