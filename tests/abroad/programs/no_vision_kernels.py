# SPDX-License-Identifier: Apache-2.0
"""Lets torchvision be imported, without its compiled operators: the wheel from PyPI wants CUDA libraries, and none of its
operators is used here. It lies in a folder of its own, since other packages import it wherever they find it. Import this first."""

import sys

import torch

sys.path.append(f"{sys.prefix}/vision")
register_fake = torch.library.register_fake


def register_unless_absent(name, *arguments, **keywords):
    if name.startswith("torchvision::"):
        return lambda function: function
    return register_fake(name, *arguments, **keywords)


torch.library.register_fake = register_unless_absent
