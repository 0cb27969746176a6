# SPDX-License-Identifier: Apache-2.0
"""Copies and synchronisations that stop the training thread, on the simulated device, called as a program's own C
extension would."""

import ctypes
import json

import torch

BYTES = 1 << 26

ctypes.CDLL("libcudart.so.13", ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(None)
optimizer = torch.optim.SGD([0.0])
host = ctypes.create_string_buffer(BYTES)
device = ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(BYTES)) == 0


def read_back():
    assert cuda.cudaMemcpy(host, device, ctypes.c_size_t(BYTES), 2) == 0


for _ in range(5):
    optimizer.step(0.1)
    read_back()
print(json.dumps({"copies": 5}))
