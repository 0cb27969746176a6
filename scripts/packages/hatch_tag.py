# SPDX-License-Identifier: Apache-2.0
"""Tells the build back end that the wheel is for any Python 3 on one platform, and each file of share/ by name.

A folder as shared data is filtered by the rules for source files, which leave out all of it."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TagHook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['GPUWATCH_WHEEL_PLATFORM']}"
        prefix = Path(self.root, "prefix")
        for file in sorted(file for file in (prefix / "share").rglob("*") if file.is_file()):
            build_data["shared_data"][str(file)] = str(file.relative_to(prefix))
