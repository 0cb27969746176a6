# SPDX-License-Identifier: Apache-2.0
"""Calls the walker (tests/unit/libinject/unwind/walk_probe.cpp) from many kinds of Python code, compares what it says with
sys._getframe, and prints how many comparisons were made and the first ones that differ."""

import asyncio
import ctypes
import gc
import inspect
import json
import os
import random
import sys
import threading
import time
import weakref

probe = ctypes.CDLL(sys.argv[1])
api = ctypes.pythonapi
MINOR = sys.version_info[1]
RUNTIME = ctypes.addressof(ctypes.c_char.in_dll(api, "_PyRuntime"))
CODE_TYPE = ctypes.addressof(ctypes.c_char.in_dll(api, "PyCode_Type"))
api.PyGILState_GetThisThreadState.restype = ctypes.c_void_p
# PyDLL keeps the GIL: nothing runs between the walk and the interpreter's own account.
walk_own = probe.walk_own if "release" in sys.argv else ctypes.PyDLL(sys.argv[1]).walk_own
for function in (walk_own, probe.measure):
    function.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64]
walk_own.argtypes += [ctypes.c_char_p, ctypes.c_size_t]
probe.measure.argtypes += [ctypes.c_int, ctypes.c_void_p]
probe.main_thread.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64]
probe.main_thread.restype = ctypes.c_uint64

checked = 0
wrong = []
local = threading.local()


def name_of(code):
    kinds = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return getattr(code, "co_qualname", code.co_name) + ("*" if MINOR >= 11 and code.co_flags & kinds else "")


def check():
    global checked
    buffer = getattr(local, "buffer", None)
    if buffer is None:
        buffer = local.buffer = ctypes.create_string_buffer(5000)
    thread = api.PyGILState_GetThisThreadState()
    # fmt: off
    frame = sys._getframe(); size = walk_own(MINOR, RUNTIME, CODE_TYPE, thread, buffer, 5000); line = frame.f_lineno
    # fmt: on
    expected = []
    while frame and len(expected) < 16:
        expected.append(f"{frame.f_code.co_filename}:{line} {name_of(frame.f_code)}".replace("\n", "?"))
        frame = frame.f_back
        line = frame.f_lineno if frame else 0
    walked = buffer.value.decode() if size > 0 else f"failed: {size}"
    checked += 1
    if walked.split("\n") != expected and len(wrong) < 5:
        wrong.append([walked.split("\n"), expected])
    return True


def generator(n):
    for i in range(n):
        check()
        yield i


def delegating(n):
    yield from generator(n)


def recursive(depth):
    if depth:
        return recursive(
            depth - 1,
        )
    return check()


async def coroutine(n):
    for _ in range(n):
        check()
        await asyncio.sleep(0)
    return [x async for x in async_generator(n)]


async def async_generator(n):
    for i in range(n):
        check()
        yield i


class Δx_ñame_日本_𒀀:
    check()

    def methöd(self):
        return [check() for _ in range(2)]

    @property
    def value(self):
        return check()

    def __del__(self):
        check()


class Plain:
    def __init__(self):
        check()


class WithMeta(type):
    def __new__(cls, *args):
        check()
        return super().__new__(cls, *args)


def many_lines():
    (
        check()
        and
        check()
    )
    try:
        raise ValueError(
            check()
        )
    except ValueError:
        check()
    finally:
        check()
    with open(os.devnull):
        check()


def closures():
    cell = 3

    def inner():
        return cell and check()

    return inner()


def one_round():
    list(delegating(3))
    recursive(5)
    recursive(60)
    (lambda: check())()
    sorted([2, 1], key=lambda x: check())
    closures()
    many_lines()
    thing = Δx_ñame_日本_𒀀()
    thing.methöd(), thing.value
    del thing
    WithMeta("Made", (), {})
    for _ in range(20):  # until the call is specialised
        Plain()
    exec(compile("\n\n\nclass Within:\n  check()\ncheck()\n", "<some\nwhere>", "exec"), {"check": check})
    exec(compile("\n" * 300 + "def far():\n" + " x = 1\n" * 400 + " check()\nfar()", "ä/far.py", "exec"), {"check": check})
    weakref.finalize(WithMeta("Dying", (), {}), check)
    gc.collect()
    asyncio.new_event_loop().run_until_complete(coroutine(2))


def churn(until):
    while time.monotonic() < until:
        json.dumps({str(i): [i] for i in range(20)})
        random.shuffle(list(range(20)))


def checker(until):
    while time.monotonic() < until:
        one_round()


one_round()
seconds = float(sys.argv[2])
until = time.monotonic() + seconds
threads = [threading.Thread(target=target, args=(until,)) for target in (churn, checker, checker)]
for thread in threads:
    thread.start()
checker(until)
for thread in threads:
    thread.join()


def at_depth(depth, function):
    return at_depth(depth - 1, function) if depth else function()


cost = {}
for depth in (1, 10, 20):
    to = (ctypes.c_uint64 * 2)()
    at_depth(depth - 1, lambda: probe.measure(MINOR, RUNTIME, CODE_TYPE, api.PyGILState_GetThisThreadState(), 2000, to))
    cost[depth] = list(to)
is_main = probe.main_thread(MINOR, RUNTIME, CODE_TYPE) == api.PyGILState_GetThisThreadState()
print(json.dumps({"checked": checked, "wrong": wrong, "is_main": is_main, "capture_describe_ns": cost}))
