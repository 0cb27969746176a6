# SPDX-License-Identifier: Apache-2.0
"""Lets torchvision be imported without its compiled operators: the wheel from PyPI wants CUDA libraries, and none of its
operators is used here. Import this first."""

import torch

register_fake = torch.library.register_fake


def register_unless_absent(name, *arguments, **keywords):
    if name.startswith("torchvision::"):
        return lambda function: function
    return register_fake(name, *arguments, **keywords)


torch.library.register_fake = register_unless_absent
