# SPDX-License-Identifier: Apache-2.0
"""CPython's own race at the end of a process with queues to processes that were not forked: the thread that feeds a
queue is a daemon and may hold the last reference to its named semaphores. Overtaken by the interpreter's end it has
unlinked one and not yet taken it off the resource tracker's list, and the tracker complains on stderr of a leak."""

import threading


def join_feeders():
    """Once all loaders are gone, which tells their feeders to end."""
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join()
