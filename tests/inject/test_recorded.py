# SPDX-License-Identifier: Apache-2.0
"""Programs that are being recorded: same exit code, same output, and a trace that tells what happened."""

import os
import signal
import subprocess

import pytest

pytestmark = pytest.mark.beside_others


def names(trace):
    return {call.name for call in trace.all_calls}


def durations_ms(trace, name):
    return [(call.end_ns - call.begin_ns) / 1e6 for call in trace.all_calls if call.name == name]


WAITS = {
    "sem_wait", "sem_timedwait", "sem_clockwait", "pthread_cond_wait", "pthread_cond_timedwait",
    "pthread_cond_clockwait", "pthread_join", "poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait",
    "nanosleep", "clock_nanosleep", "usleep", "sleep", "waitpid", "read", "readv", "fread", "recv", "recvfrom", "recvmsg",
}  # fmt: skip


def test_every_wait_is_recorded_with_its_length(recorded, guests):
    trace = recorded([guests / "waits"])
    assert WAITS <= names(trace)
    for name in WAITS - {"nanosleep", "sleep"}:
        # The guest waits 20 ms; a loaded machine may add to that, nothing may take away.
        assert max(durations_ms(trace, name)) >= 19, name
    assert max(durations_ms(trace, "sleep")) >= 990


def test_calls_that_fail_at_once_keep_errno_and_leave_no_record(recorded, guests):
    trace = recorded([guests / "waits"])
    assert all(call.end_ns - call.begin_ns >= 45_000 for call in trace.all_calls if call.name in WAITS)


def test_cancelled_in_every_wait(recorded, guests):
    trace = recorded([guests / "waits", "cancel"])
    # The main thread went on, and was still recorded.
    assert len(durations_ms(trace, "cudaMemcpy")) == 2


def test_killed_in_mid_wait(injected_environment, guests, run_dir):
    import raw_trace

    process = subprocess.Popen([guests / "waits", "hang"], env=injected_environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    trace = raw_trace.read_run(run_dir)
    assert "cudaMemcpy" in names(trace)
    assert not trace.tables("ProcessEnd")


def ends(trace):
    """(reason, code) of every process that was seen to end. 1: exit, 2: _exit"""
    return sorted((row["reason"], row["code"]) for row in trace.tables("ProcessEnd"))


def test_children_of_every_kind(recorded, guests):
    trace = recorded([guests / "processes"])
    pids = {row["pid"] for row in trace.tables("Process")}
    assert len(pids) == 4  # itself, fork, fork and _exit, raw fork; none for what was exec'd
    assert ends(trace) == [(1, 4), (1, 42), (2, 5), (2, 7)]


def test_twelve_generations(recorded, guests):
    trace = recorded([guests / "processes", "generations"])
    assert len({row["pid"] for row in trace.tables("Process")}) >= 12
    assert len(durations_ms(trace, "cudaMemcpy")) == 13


@pytest.mark.parametrize("how", ["quick-exit", "abort"])
def test_sudden_end(recorded, guests, how):
    trace = recorded([guests / "processes", how])
    assert ends(trace) == ([(2, 23)] if how == "quick-exit" else [])


def test_daemon(recorded, guests):
    trace = recorded([guests / "processes", "daemon"])
    assert len(durations_ms(trace, "cudaMemcpy")) == 1


def test_job_that_closes_all_descriptors(recorded, guests):
    trace = recorded([guests / "processes", "close-descriptors"])
    assert len(durations_ms(trace, "cudaMemcpy")) == 2


@pytest.mark.parametrize("stacks", ["storm", "small-stacks"])
def test_thousand_threads(recorded, guests, stacks):
    trace = recorded([guests / "threads", stacks])
    sleepers = {call.thread for call in trace.all_calls if call.name == "nanosleep"}
    assert len(sleepers) >= 1000


@pytest.mark.parametrize("job", [("threads",), ("threads", "idle"), ("processes", "idle-children")], ids=" ".join)
def test_what_records_little_takes_little_space(recorded, guests, run_dir, job):
    recorded([guests / job[0], *job[1:]])
    (trace,) = run_dir.glob("*.gwt")
    assert trace.stat().st_blocks * 512 <= 256 << 10


def test_signal_handlers_that_do_io(recorded, guests):
    trace = recorded([guests / "threads", "signals"])
    interrupted = [call for call in trace.all_calls if call.name == "poll" and call.failed]
    assert len(interrupted) >= 19  # one may have been dropped, because it was in the middle of a store


def test_handlers_that_jump_out_of_waits(recorded, guests):
    trace = recorded([guests / "threads", "jumps"])
    assert len(durations_ms(trace, "cudaMemcpy")) == 2


@pytest.mark.parametrize("how", ["local", "global", "close"])
def test_runtime_that_comes_in_with_a_plugin(recorded, guests, guest_libraries, how):
    trace = recorded([guests / "loading", guest_libraries / "libplugin.so", how])
    assert len(durations_ms(trace, "cudaMemcpy")) == (20 if how == "close" else 1)


def test_starts_on_a_small_stack(recorded, guests):
    trace = recorded([guests / "small_stack"])
    assert "cudaMemcpy" in names(trace)


def test_plugin_that_binds_to_itself_first(same, guests, guest_libraries):
    """RTLD_DEEPBIND goes around the hooks: nothing is seen, and nothing breaks."""
    same([guests / "loading", guest_libraries / "libplugin.so", "deepbind"])


def test_allocator_that_does_io_before_any_constructor(recorded, guests):
    trace = recorded([guests / "own_malloc"])
    assert {"cudaMemcpy", "usleep"} <= names(trace)


@pytest.mark.parametrize("order", ["before", "after"])
def test_beside_another_preloaded_library(injected_environment, guests, guest_libraries, libgpuwatch, run_dir, order):
    import raw_trace

    other = guest_libraries / "libother_preload.so"
    preload = [str(other), str(libgpuwatch)] if order == "before" else [str(libgpuwatch), str(other)]

    def waits(preloaded):
        env = {**injected_environment, "LD_PRELOAD": ":".join(preloaded)}
        return subprocess.run([guests / "waits"], env=env, capture_output=True, text=True, timeout=60)

    alone, both = waits([str(other)]), waits(preload)
    assert (both.returncode, both.stdout, both.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert "other library saw" in both.stderr
    assert WAITS <= names(raw_trace.read_run(run_dir))


def test_disabled(dormant, guests):
    dormant([guests / "waits", "cancel"], env={"GPUWATCH_DISABLE": "1"})


def test_source_switched_off(recorded, guests):
    trace = recorded([guests / "waits"], env={"GPUWATCH_TRACE": "cuda"})
    assert not WAITS & names(trace)
    assert "cudaMemcpy" in names(trace)
    assert trace.state("io") == "Off"
    assert trace.source("io")["text"] == "off by GPUWATCH_TRACE; add io to it to record this"


def test_value_that_is_not_understood(run_both, guests, run_dir):
    plain, injected = run_both([guests / "threads"], env={"GPUWATCH_MAX_SIZE": "banana"})
    assert (injected.returncode, injected.stdout) == (plain.returncode, plain.stdout)
    lines = injected.stderr.decode().splitlines()
    assert len(lines) == 1 and "GPUWATCH_MAX_SIZE" in lines[0] and "banana" in lines[0]
    assert list(run_dir.glob("*.gwt"))


def test_every_setting_that_is_not_understood_is_named(run_both, guests, run_dir):
    wrong = {"GPUWATCH_MODE": "rw", "GPUWATCH_COLOUR": "red", "GPUWATCH_MAX_SIZE": "4K"}
    _, injected = run_both([guests / "threads"], env=wrong)
    (line,) = injected.stderr.decode().splitlines()
    assert all(name in line for name in wrong) and "rw" in line and "red" not in line


def test_standard_error_of_a_recorded_job_is_its_own(same, guests):
    same([guests / "threads"])


def test_permissions_of_the_trace(recorded, guests, run_dir):
    old = os.umask(0)
    try:
        recorded([guests / "threads"])
    finally:
        os.umask(old)
    (trace,) = run_dir.glob("*.gwt")
    assert trace.stat().st_mode & 0o777 == 0o600


def test_nccl(recorded, guests):
    trace = recorded([guests / "nccl"])
    calls = [call for call in trace.all_calls if call.name.startswith("nccl")]
    assert [call.name for call in sorted(calls, key=lambda call: call.begin_ns)] == [
        "ncclCommInitRank", "ncclCommWindowRegister", "ncclAllReduce", "ncclAllReduce", "ncclAllReduce",
        "ncclGroupStart", "ncclGroupEnd", "ncclCommWindowDeregister", "ncclCommDestroy",
    ]  # fmt: skip
    for call in calls:
        assert call.failed == (call.name == "ncclGroupEnd")
        if call.name == "ncclAllReduce":
            assert (call.a, call.b, call.detail[0]) == (0x12345670, 0x77, 400)
            assert call.end_ns - call.begin_ns >= 1e6
        elif "Group" not in call.name:
            assert call.a == 0x12345670
    assert trace.state("nccl") == "On"


def test_mpi(recorded, guests):
    """Calls that spin for the others. Of a thousand that nobody was late for, those that the CPU was taken from."""
    trace = recorded([guests / "mpi"])
    calls = [call for call in trace.all_calls if call.name.startswith("MPI_")]
    late = [call for call in calls if call.name != "MPI_Barrier"]
    assert [call.name for call in sorted(late, key=lambda call: call.begin_ns)] == ["MPI_Allreduce"] * 3 + ["MPI_Scatter"]
    assert all(not call.failed and call.end_ns - call.begin_ns >= 2e6 for call in late)
    assert len(calls) < 500
    assert all(call.end_ns - call.begin_ns >= 49e3 for call in calls)


def test_facts_about_the_machine(recorded, guests):
    facts = recorded([guests / "threads"]).facts()
    with open("/proc/meminfo") as meminfo:
        assert int(facts["memory_bytes"]) == int(meminfo.readline().split()[1]) * 1024
    assert int(facts["cpu_affinity"]) == len(os.sched_getaffinity(0))
    assert facts["cpu_quota"] == "none" or float(facts["cpu_quota"]) > 0


def test_machine_is_sampled_at_step_boundaries(recorded, guests):
    samples = recorded([guests / "threads", "steps"]).tables("Sample")
    # One at the start, then four a second for the three to four seconds that the guest runs; fewer where a sample
    # takes more than 0.25 ms of CPU time (9 with 0.5 ms, which is what another machine took).
    assert 6 <= len(samples) <= 17
    for before, after in zip(samples, samples[1:]):
        assert after["ticks"] > before["ticks"]
        assert 0 < after["cpu_ns"] - before["cpu_ns"] <= after["cpu_total_ns"] - before["cpu_total_ns"] + 20_000_000
        assert after["cpu_idle_ns"] >= before["cpu_idle_ns"]
    assert all(sample["rss_bytes"] > 1 << 20 for sample in samples)
