# SPDX-License-Identifier: Apache-2.0
"""Walks a process that runs generators within generators, as json's encoder does, and prints how many walks there were and
how many of them saw nothing, or not the function that called the generators."""

import ctypes
import json
import os
import signal
import sys
import time

WALKS = 400

probe = ctypes.CDLL(sys.argv[1])
RUNTIME = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
CODE_TYPE = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "PyCode_Type"))
probe.walk_process.argtypes = [ctypes.c_uint32, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64]
probe.walk_process.argtypes += [ctypes.c_char_p, ctypes.c_size_t]


def leaves(value):
    if isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield str(value)


def encode():
    value = [[i, [i / 7, [str(i)]]] for i in range(50)]
    while True:
        sum(len(leaf) for leaf in leaves(value))


def main():
    child = os.fork()
    if child == 0:
        encode()
    buffer = ctypes.create_string_buffer(5000)
    failed = elsewhere = 0
    time.sleep(0.2)
    for _ in range(WALKS):
        time.sleep(0.001)
        size = probe.walk_process(child, sys.version_info[1], RUNTIME, CODE_TYPE, buffer, 5000)
        failed += size <= 0
        elsewhere += size > 0 and " encode" not in buffer.value.decode()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(json.dumps({"walks": WALKS, "failed": failed, "elsewhere": elsewhere}))


if __name__ == "__main__":
    main()
