# SPDX-License-Identifier: Apache-2.0
"""`gpuwatch run` with a job that somebody stops: who stops and continues the job alone does not continue gpuwatch."""

import os
import signal
import subprocess
import time


def test_a_job_stopped_alone_ends_with_its_code(gpuwatch, run_dir):
    command = [gpuwatch, "run", "--no-report", "-o", run_dir, "sh", "-c", "echo $$; sleep 1; exit 7"]
    run = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    try:
        job = int(run.stdout.readline())
        os.kill(job, signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(job, signal.SIGCONT)
        assert run.wait(timeout=30) == 7
    finally:
        run.kill()
        run.stdout.close()
        run.wait()
