// SPDX-License-Identifier: Apache-2.0
// The recorder in real processes: each case forks a guest that records and ends in its own way; the test
// reads what it left. Recording starts once per process, hence a process per case.
#include "libinject/record/recorder.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "libinject/runtime/config.h"
#include "tests/unit/libinject/record/grid_reader.h"

namespace gpuwatch {
namespace {

namespace fs = std::filesystem;
using test::Grid;

constexpr uint16_t kOp = 7;

class Recorder : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("gpuwatch-record-test-" + std::to_string(getpid()) + "-" +
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(directory_);
    setenv("GPUWATCH_OUT", directory_.c_str(), 1);
    shared_ = static_cast<std::atomic<uint64_t>*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  void TearDown() override {
    fs::remove_all(directory_);
    unsetenv("GPUWATCH_MAX_SIZE");
    munmap(shared_, 4096);
  }

  // Forks; the child starts recording, runs `guest` and leaves by _exit(0).
  pid_t start(const std::function<void()>& guest) {
    const pid_t pid = fork();
    if (pid) return pid;
    base::note_process_start();
    runtime::read_config();
    if (!record::activate("test")) _exit(99);
    guest();
    _exit(0);
  }
  int run(const std::function<void()>& guest) {
    int status = 0;
    waitpid(start(guest), &status, 0);
    return status;
  }
  void read(Grid* grid) {
    std::vector<fs::path> files(fs::directory_iterator(directory_), fs::directory_iterator{});
    ASSERT_EQ(files.size(), 1u);
    test::read_grid(files[0], grid);
  }

  fs::path directory_;
  std::atomic<uint64_t>* shared_;
};

void record_numbered(uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; ++i) {
    const record::Scope scope = record::enter(kOp);
    record::leave(scope, 0, i, ~i);
  }
}

TEST_F(Recorder, WritesEverySlotInOrder) {
  ASSERT_EQ(run([] { record_numbered(0, 100000); }), 0);
  Grid grid;
  read(&grid);
  const auto process = grid.all<trace::Process>("PROC");
  ASSERT_EQ(process.size(), 1u);
  const auto slots = grid.slots(process[0]->ordinal(), process[0]->pid());
  ASSERT_EQ(slots.size(), 100000u);
  uint64_t last = 0;
  for (uint32_t i = 0; i < slots.size(); ++i) {
    ASSERT_EQ(slots[i].a(), i);
    ASSERT_EQ(slots[i].b(), ~i);
    ASSERT_EQ(slots[i].op(), kOp);
    ASSERT_GE(slots[i].start(), last);
    last = slots[i].start();
  }
}

TEST_F(Recorder, DetailSlotFollowsItsRecord) {
  ASSERT_EQ(run([] {
              for (uint32_t i = 0; i < 5000; ++i) {
                const record::Scope scope = record::enter(kOp);
                record::leave(scope, trace::kFailed, i, 0, trace::CallDetail(i * 3ull, 4, 5, 6, 7, 0));
              }
            }),
            0);
  Grid grid;
  read(&grid);
  const auto* process = grid.all<trace::Process>("PROC").at(0);
  const auto slots = grid.slots(process->ordinal(), process->pid());
  ASSERT_EQ(slots.size(), 10000u);
  for (uint32_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(slots[2 * i].flags(), trace::kFailed | 1);
    trace::CallDetail detail;
    std::memcpy(static_cast<void*>(&detail), &slots[2 * i + 1], sizeof detail);
    ASSERT_EQ(detail.bytes(), i * 3u);
  }
}

TEST_F(Recorder, KillLosesAtMostTheRecordBeingWritten) {
  const pid_t pid = start([this] {
    for (uint32_t i = 0;; ++i) {
      record_numbered(i, i + 1);
      shared_[0].store(i + 1);
      if (i == 200000) i = 200000 - 1;  // bounded file
      if (i >= 150000) usleep(10);
    }
  });
  while (shared_[0].load() < 150100) usleep(1000);
  kill(pid, SIGKILL);
  int status;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  Grid grid;
  read(&grid);
  const auto* process = grid.all<trace::Process>("PROC").at(0);
  const auto slots = grid.slots(process->ordinal(), process->pid());
  ASSERT_GE(slots.size(), shared_[0].load());  // everything that leave() returned from
  ASSERT_LE(slots.size(), shared_[0].load() + 1);
  for (uint32_t i = 0; i < slots.size(); ++i) ASSERT_EQ(slots[i].a(), i);
}

TEST_F(Recorder, OpenCallSurvivesTheKill) {
  const pid_t pid = start([this] {
    const record::Scope outer = record::enter(3, 42);
    const record::Scope inner = record::enter(4);
    record::leave(inner, 0, 0, 0);
    const record::Scope second = record::enter(5);
    shared_[0] = 1;
    pause();
    record::leave(second, 0, 0, 0);
    record::leave(outer, 0, 0, 0);
  });
  while (!shared_[0]) usleep(1000);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  Grid grid;
  read(&grid);
  ASSERT_EQ(grid.chunks.size(), 1u);
  const auto* open = grid.chunks[0]->open();
  ASSERT_EQ(open->depth(), 2u);
  EXPECT_EQ(open->calls()->Get(0)->op(), 3);
  EXPECT_EQ(open->calls()->Get(0)->a(), 42u);
  EXPECT_EQ(open->calls()->Get(1)->op(), 5);
}

TEST_F(Recorder, ThreadsHaveTheirOwnChunks) {
  constexpr int kThreads = 8;
  ASSERT_EQ(run([] {
              std::vector<std::thread> threads;
              for (int t = 0; t < kThreads; ++t) {
                threads.emplace_back([t] {
                  record_numbered(0, 20000);
                  record::put_fact("thread", std::to_string(t).c_str());
                });
              }
              for (auto& thread : threads) thread.join();
            }),
            0);
  Grid grid;
  read(&grid);
  std::map<uint32_t, size_t> by_thread;
  for (const auto* chunk : grid.chunks) by_thread[chunk->thread()] += chunk->slots()->size();
  ASSERT_EQ(by_thread.size(), static_cast<size_t>(kThreads));
  for (const auto& [thread, count] : by_thread) EXPECT_EQ(count, 20000u);
  EXPECT_EQ(grid.all<trace::Fact>("FACT").size(), kThreads + 1u);  // and the evidence
}

TEST_F(Recorder, ForkedChildrenWriteIntoTheirParentsFile) {
  ASSERT_EQ(run([] {
              record_numbered(0, 10);
              for (int child = 0; child < 3; ++child) {
                const pid_t pid = fork();
                if (pid == 0) {
                  record_numbered(0, 5000);
                  _exit(0);
                }
                waitpid(pid, nullptr, 0);
              }
              record_numbered(10, 20);
            }),
            0);
  Grid grid;
  read(&grid);
  const auto processes = grid.all<trace::Process>("PROC");
  ASSERT_EQ(processes.size(), 4u);
  EXPECT_EQ(processes[0]->parent_ordinal(), trace::kNoParent);
  EXPECT_EQ(grid.slots(processes[0]->ordinal(), processes[0]->pid()).size(), 20u);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(processes[i]->parent_ordinal(), processes[0]->ordinal());
    EXPECT_EQ(processes[i]->parent_pid(), processes[0]->pid());
    EXPECT_EQ(grid.slots(processes[i]->ordinal(), processes[i]->pid()).size(), 5000u);
  }
}

TEST_F(Recorder, StopsAtTheSizeLimitAndSaysSo) {
  setenv("GPUWATCH_MAX_SIZE", "8MiB", 1);
  ASSERT_EQ(run([] {
              record_numbered(0, 2000000);
              if (record::is_recording()) _exit(3);
            }),
            0);
  Grid grid;
  read(&grid);
  EXPECT_EQ(grid.bytes.size(), 8u << 20);
  EXPECT_EQ(grid.header->stopped(), static_cast<uint32_t>(trace::StopReason::SizeLimit));
  EXPECT_GT(grid.slot_count(), 300000u);
}

TEST_F(Recorder, FileSizeLimitOfTheProcessStopsRecordingNotTheJob) {
  ASSERT_EQ(run([] {
              const rlimit limit{6u << 20, 6u << 20};
              setrlimit(RLIMIT_FSIZE, &limit);
              record_numbered(0, 1000000);
            }),
            0);
  Grid grid;
  read(&grid);
  EXPECT_EQ(grid.header->stopped(), static_cast<uint32_t>(trace::StopReason::FileSizeLimit));
}

// A write past the limit raises SIGXFSZ even where the file is that long already.
TEST_F(Recorder, FileSizeLimitBelowWhatIsReservedDoesNotKillTheJob) {
  ASSERT_EQ(run([] {
              const rlimit limit{32u << 10, 32u << 10};
              setrlimit(RLIMIT_FSIZE, &limit);
              record_numbered(0, 2500);
            }),
            0);
  Grid grid;
  read(&grid);
  EXPECT_EQ(grid.slot_count(), 2500u);  // of 24 bytes
}

// From now on, in this process, the system call fails.
bool refuse_call(uint32_t call, uint32_t error) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {std::size(rules), rules};
  return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

// In kB, from /proc/self/status.
uint64_t resident_file_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssFile:")) return std::stoull(line.substr(8));
  return 0;
}

TEST_F(Recorder, WhatIsFullDoesNotStayInMemory) {
  setenv("GPUWATCH_MAX_SIZE", "512MiB", 1);
  ASSERT_EQ(run([this] {
              record_numbered(0, 1);
              const uint64_t before = resident_file_kb();
              record_numbered(1, 13'500'000);
              shared_[0] = resident_file_kb() - before;
              for (uint32_t i = 0; i < 5000; ++i)
                record::put_fact("key", std::to_string(i).append(1999, '.').c_str());
              std::vector<std::thread> at_once;
              for (int t = 0; t < 6; ++t) at_once.emplace_back([] { record_numbered(0, 400'000); });
              for (auto& thread : at_once) thread.join();
              for (int i = 0; i < 3000; ++i) std::thread([] { record_numbered(0, 1); }).join();
              shared_[1] = resident_file_kb() - before;
            }),
            0);
  Grid grid;
  read(&grid);
  ASSERT_GT(grid.bytes.size(), 300u << 20);
  EXPECT_LT(shared_[0].load(), 8u << 10);
  EXPECT_LT(shared_[1].load(), 8u << 10);
}

// A store must never meet a page that is not there (SIGBUS).
TEST_F(Recorder, DiskThatIsFullStopsRecordingNotTheJob) {
  ASSERT_EQ(run([] {
              if (!refuse_call(SYS_fallocate, ENOSPC)) _exit(77);
              record_numbered(0, 1000000);
            }),
            0);
  Grid grid;
  read(&grid);
  EXPECT_EQ(grid.header->stopped(), static_cast<uint32_t>(trace::StopReason::DiskFull));
  EXPECT_GT(grid.slot_count(), 2500u);
}

// A file system or a sandbox that cannot reserve: frames are made one by one.
TEST_F(Recorder, WhereSpaceCannotBeReservedNothingIsLost) {
  for (const uint32_t error : {EOPNOTSUPP, ENOSYS, EPERM}) {
    ASSERT_EQ(run([error] {
                if (!refuse_call(SYS_fallocate, error)) _exit(77);
                const pid_t child = fork();
                record_numbered(0, 300000);
                if (child == 0) _exit(0);
                int status = 1;
                if (waitpid(child, &status, 0) != child || status != 0) _exit(78);
              }),
              0);
    Grid grid;
    read(&grid);
    EXPECT_EQ(grid.slot_count(), 600000u) << error;
    fs::remove_all(directory_);
    fs::create_directory(directory_);
  }
}

// One of subprocess reads a little and is gone: it leaves neither a process nor a page.
TEST_F(Recorder, AChildJoinsWithItsFirstRecord) {
  ASSERT_EQ(run([] {
              record_numbered(0, 1);
              for (const bool is_recorded : {false, true}) {
                if (const pid_t child = fork()) {
                  waitpid(child, nullptr, 0);
                  continue;
                }
                const record::Scope wait = record::enter_wait(kOp, 7);
                if (!wait) _exit(1);
                is_recorded ? record::leave(wait, 0, 1, 2) : record::leave_unrecorded(wait);
                _exit(0);
              }
            }),
            0);
  Grid grid;
  read(&grid);
  EXPECT_EQ(grid.all<trace::Process>("PROC").size(), 2u);
  EXPECT_EQ(grid.slot_count(), 2u);
}

TEST_F(Recorder, CountsLossesInTheProcessThatHasThem) {
  ASSERT_EQ(run([] {
              record::lose("before the fork", 3);
              if (const pid_t child = fork()) {
                waitpid(child, nullptr, 0);
              } else {
                record::lose("in the child", 5);
                record_numbered(0, 1);
                record::lose("in the child", 5);
              }
              record::end_process(trace::EndReason::Exit, 0);
            }),
            0);
  Grid grid;
  read(&grid);
  ASSERT_EQ(grid.all<trace::Process>("PROC").size(), 2u);
  EXPECT_EQ(grid.losses(0), (Grid::Losses{{"before the fork", 3}}));
  EXPECT_EQ(grid.losses(1), (Grid::Losses{{"in the child", 10}}));
}

TEST_F(Recorder, WritesLossesWhileTheJobRuns) {
  ASSERT_EQ(run([] {
              record::lose("early", 3);
              record::write_losses();
              record::lose("early", 4);
              record::write_losses();
              record::lose("early", 5);  // killed before the next
              raise(SIGKILL);
            }),
            SIGKILL);
  Grid grid;
  read(&grid);
  EXPECT_EQ(grid.losses(0), (Grid::Losses{{"early", 7}}));
}

// Gloo's threads are told by their name; one that only has the process's, as it inherits it, writes none.
TEST_F(Recorder, GivenNamesOfThreadsAreWritten) {
  ASSERT_EQ(run([] {
              record_numbered(0, 1);
              std::thread([] {
                pthread_setname_np(pthread_self(), "pt_gloo_runloop");  // 15 letters: the most
                record_numbered(0, 1);
              }).join();
              std::thread([] { record_numbered(0, 1); }).join();
            }),
            0);
  Grid grid;
  read(&grid);
  std::map<uint32_t, std::string> texts;
  for (const auto* text : grid.all<trace::Text>("TEXT")) texts[text->id()] = text->text()->str();
  const auto names = grid.all<trace::ThreadName>("THRD");
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(texts[names[0]->name()], "pt_gloo_runloop");
}

// Records from a handler that interrupts a store are dropped and counted; no record may be torn.
TEST_F(Recorder, SignalHandlersDoNotTearRecords) {
  ASSERT_EQ(run([] {
              struct sigaction action = {};
              action.sa_handler = [](int) {
                const record::Scope scope = record::enter(9);
                record::leave(scope, 0, 0xabcd, 0xdcba, trace::CallDetail(1, 2, 3, 4, 5, 6));
              };
              sigaction(SIGALRM, &action, nullptr);
              const itimerval every{{0, 20}, {0, 20}};
              setitimer(ITIMER_REAL, &every, nullptr);
              for (uint32_t i = 0; i < 300000; ++i) {
                const record::Scope scope = record::enter(kOp);
                record::leave(scope, 0, i, ~i, trace::CallDetail(i, 0, 0, 0, 0, 0));
              }
              const itimerval off{};
              setitimer(ITIMER_REAL, &off, nullptr);
            }),
            0);
  Grid grid;
  read(&grid);
  const auto* process = grid.all<trace::Process>("PROC").at(0);
  const auto slots = grid.slots(process->ordinal(), process->pid());
  uint32_t next = 0;
  size_t handled = 0;
  for (size_t at = 0; at < slots.size(); at += 1 + (slots[at].flags() & trace::kDetailSlots)) {
    trace::CallDetail detail;
    std::memcpy(static_cast<void*>(&detail), &slots.at(at + 1), sizeof detail);
    if (slots[at].op() == 9) {
      ASSERT_EQ(slots[at].a(), 0xabcdu);
      ASSERT_EQ(detail.bytes(), 1u);
      ++handled;
    } else {
      ASSERT_EQ(slots[at].a(), next);
      ASSERT_EQ(detail.bytes(), next);
      ++next;
    }
  }
  EXPECT_EQ(next, 300000u);
  EXPECT_GT(handled, 0u);
}

TEST_F(Recorder, EqualTextsAreWrittenOnce) {
  ASSERT_EQ(run([] {
              for (int i = 0; i < 1000; ++i) {
                if (record::intern("the same") != record::intern(std::string("the same").c_str())) _exit(3);
              }
            }),
            0);
  Grid grid;
  read(&grid);
  size_t seen = 0;
  for (const auto* text : grid.all<trace::Text>("TEXT")) seen += text->text()->str() == "the same";
  EXPECT_EQ(seen, 1u);
}

TEST_F(Recorder, FilesArePrivateAndNeverFollowLinks) {
  ASSERT_EQ(run([] { record_numbered(0, 1); }), 0);
  for (const auto& file : fs::directory_iterator(directory_)) {
    EXPECT_EQ(file.status().permissions(), fs::perms::owner_read | fs::perms::owner_write);
  }
  fs::remove_all(directory_);
  const fs::path elsewhere = directory_.string() + "-elsewhere";
  fs::create_directories(elsewhere);
  fs::create_directory_symlink(elsewhere, directory_);
  EXPECT_EQ(WEXITSTATUS(run([] {})), 99);
  EXPECT_TRUE(fs::is_empty(elsewhere));
  fs::remove_all(elsewhere);
}

}  // namespace
}  // namespace gpuwatch
