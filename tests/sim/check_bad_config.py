# SPDX-License-Identifier: Apache-2.0
"""usage: check_bad_config.py PROGRAM: a mistake in GWSIM_CONFIG ends a program at load, with one sentence."""

import os
import signal
import subprocess
import sys
import tempfile


def main():
    for text, expected in (
        ("launch_latency_us 3\nlaunch_latncy_us 4\n", ':2: unknown key "launch_latncy_us"'),
        ("h2d_gbs fast\n", ':1: "h2d_gbs" takes one number'),
        ("kernel_bytes *\n", ":1: expected: kernel_bytes <glob> <bytes per thread> [<us>], none of them negative"),
        ("include /nowhere\n", None),
        ("kernel gemm\n", ":1: expected: kernel <glob> <us> [<us per block>]"),
    ):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
            config.write(text)
            config.flush()
            environment = dict(os.environ, GWSIM_CONFIG=config.name)
            result = subprocess.run([sys.argv[1], "--gtest_list_tests"], env=environment, capture_output=True, text=True)
        assert result.returncode == -signal.SIGABRT, result
        where = config.name if expected else "/nowhere"
        what = expected or ":0: GWSIM_CONFIG or a file in it names a file that cannot be read"
        assert result.stderr == f"[gpuwatch simulated device] {where}{what}\n", result.stderr
        assert result.stdout == "", result.stdout


if __name__ == "__main__":
    main()
