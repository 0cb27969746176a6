// SPDX-License-Identifier: Apache-2.0
// A program's own account of its time: GWSIM_PHASES=<file> gets one JSON object for each phase,
//   {"phase":"data_wait","tid":123,"step":7,"begin":1000,"end":2000}
// Times in ns of CLOCK_MONOTONIC. Kept in memory (100 ns a phase) and written at exit; without the variable
// a phase costs one branch. Phases of one thread nest. Thread-safe; a thread's phases count once the thread
// or process ended.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace phase_log {

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

struct Phase {
  const char* name;
  long step;
  int64_t begin_ns;
  int64_t end_ns;
};

struct ThreadPhases {
  long tid = syscall(SYS_gettid);
  std::vector<Phase> phases;
};

class Log {
 public:
  static Log& instance() {
    static Log log;
    return log;
  }
  bool enabled() const { return path_ != nullptr; }

  std::vector<Phase>& mine() {
    thread_local std::shared_ptr<ThreadPhases> t_phases = add_thread();
    return t_phases->phases;
  }

 private:
  Log() : path_(std::getenv("GWSIM_PHASES")) {}
  ~Log() {
    FILE* file = path_ ? std::fopen(path_, "w") : nullptr;
    if (!file) return;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& thread : threads_) {
      for (const Phase& p : thread->phases) {
        std::fprintf(file, "{\"phase\":\"%s\",\"tid\":%ld,\"step\":%ld,\"begin\":%lld,\"end\":%lld}\n",
                     p.name, thread->tid, p.step, static_cast<long long>(p.begin_ns),
                     static_cast<long long>(p.end_ns));
      }
    }
    std::fclose(file);
  }
  std::shared_ptr<ThreadPhases> add_thread() {
    auto phases = std::make_shared<ThreadPhases>();
    phases->phases.reserve(1 << 14);
    std::lock_guard<std::mutex> lock(mutex_);
    threads_.push_back(phases);
    return phases;
  }

  const char* path_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<ThreadPhases>> threads_;
};

// From construction to destruction; `name` must outlive the process.
class Scope {
 public:
  Scope(const char* name, long step) : name_(name), step_(step) {
    if (Log::instance().enabled()) begin_ns_ = now_ns();
  }
  ~Scope() {
    if (begin_ns_) Log::instance().mine().push_back({name_, step_, begin_ns_, now_ns()});
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const char* name_;
  long step_;
  int64_t begin_ns_ = 0;
};

}  // namespace phase_log
