// SPDX-License-Identifier: Apache-2.0
// What the system calls cost that the recorder makes while batches pass. scripts/bench.py counts how many a
// batch adds (strace), and multiplies.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <ctime>

namespace {

struct Pipe {
  int ends[2];
  Pipe() { benchmark::DoNotOptimize(pipe(ends)); }
};

void fstatfs(benchmark::State& state) {
  const Pipe pipe;
  struct statfs about;
  for (auto _ : state) benchmark::DoNotOptimize(::fstatfs(pipe.ends[0], &about));
}
BENCHMARK(fstatfs);

void statx(benchmark::State& state) {
  const int fd = open("/proc/self/exe", O_RDONLY);
  struct statx about;
  for (auto _ : state) {
    benchmark::DoNotOptimize(::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &about));
  }
  close(fd);
}
BENCHMARK(statx);

void getrusage(benchmark::State& state) {
  struct rusage usage;
  for (auto _ : state) benchmark::DoNotOptimize(::getrusage(RUSAGE_THREAD, &usage));
}
BENCHMARK(getrusage);

void clock_gettime(benchmark::State& state) {
  timespec time;
  for (auto _ : state) benchmark::DoNotOptimize(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time));
}
BENCHMARK(clock_gettime);

// With two reads, the second of which finds the end, and a close: how a file of procfs is read.
void openat(benchmark::State& state) {
  char text[128];
  for (auto _ : state) {
    const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    while (read(fd, text, sizeof text) > 0) benchmark::ClobberMemory();
    close(fd);
  }
}
BENCHMARK(openat);

void process_vm_readv(benchmark::State& state) {
  char from[512] = {}, to[512];
  const iovec local{to, sizeof to}, remote{from, sizeof from};
  for (auto _ : state) benchmark::DoNotOptimize(::process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
}
BENCHMARK(process_vm_readv);

// A frame of the trace, before its first record.
void pwrite64(benchmark::State& state) {
  static const char zeros[64 << 10] = {};
  char name[] = "/tmp/gpuwatch-bench-XXXXXX";
  const int fd = mkstemp(name);
  unlink(name);
  for (auto _ : state) benchmark::DoNotOptimize(pwrite(fd, zeros, sizeof zeros, 0));
  close(fd);
}
BENCHMARK(pwrite64);

}  // namespace

BENCHMARK_MAIN();
