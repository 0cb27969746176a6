# SPDX-License-Identifier: Apache-2.0
"""Words that tests put before a command, and whether this machine allows them."""

import subprocess

# By these a command comes before everybody else, where we may: what other processes of the machine do is no part of a test
# that compares times. Nice levels count within a session's group; the group has one of its own.
FIRST = ("setsid", "-w", "sh", "-c", 'test ! -e /proc/self/autogroup || echo -20 > /proc/self/autogroup; exec nice -n -20 "$@"', "sh")


def can_run(words):
    """Whether this machine allows a command that a case needs (`unshare -m true`): it succeeds, without complaint."""
    try:
        done = subprocess.run(words, capture_output=True, timeout=20)
        return done.returncode == 0 and not done.stderr
    except OSError:
        return False
