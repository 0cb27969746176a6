# SPDX-License-Identifier: Apache-2.0
import pickle


class _open_zipfile_writer_file:
    def __init__(self, name):
        self.file = open(name, "wb")

    def __enter__(self):
        return self.file

    def __exit__(self, *args):
        self.file.close()


class _open_zipfile_writer_buffer:
    def __init__(self, buffer):
        self.buffer = buffer

    def __enter__(self):
        return self.buffer

    def __exit__(self, *args):
        self.buffer.flush()


def save(obj, f):
    opener = _open_zipfile_writer_buffer if hasattr(f, "write") else _open_zipfile_writer_file
    with opener(f) as opened:
        pickle.dump(obj, opened)
