// SPDX-License-Identifier: Apache-2.0
// What finds no room in the tables of this layer is counted, in the trace of the process that it happened in.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "libinject/context/mounts.h"
#include "libinject/context/sampler.h"
#include "libinject/context/workers.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"
#include "tests/unit/libinject/made_up_machine.h"
#include "tests/unit/libinject/record/grid_reader.h"

namespace gpuwatch::context {
namespace {

using test::Grid;

class Bounds : public tests::MadeUpMachine {
 protected:
  Grid::Losses losses_of(const std::function<void()>& guest) {
    const std::string out = root_ + "/out";
    const pid_t child = fork();
    if (child == 0) {
      setenv("GPUWATCH_OUT", out.c_str(), 1);
      base::note_process_start();
      runtime::read_config();
      if (!record::activate("test")) _exit(99);
      guest();
      record::end_process(trace::EndReason::Exit, 0);
      _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    Grid grid;
    for (const auto& entry : std::filesystem::directory_iterator(out)) test::read_grid(entry.path(), &grid);
    return grid.losses(0);
  }
};

TEST_F(Bounds, OfMounts) {
  std::string lines;
  for (int i = 0; i < 70; ++i) {
    const std::string number = std::to_string(i);
    lines += number + " 1 8:" + number + " / /data/" + number + " rw - ext4 /dev/sd" + number + " rw\n";
  }
  file("proc/self/mountinfo", lines + "99 1 0:5 / /proc rw - proc proc rw\n");
  EXPECT_EQ(
      losses_of([this] { put_mounts(roots()); }),
      (Grid::Losses{{"incomplete: mounts are not told apart in file reads: there are more than 64", 6}}));
}

TEST_F(Bounds, OfWorkers) {
  const auto watch = [](uint32_t count) {
    for (uint32_t pid = 1; pid <= count; ++pid) watch_child(pid);
  };
  EXPECT_EQ(losses_of([&] { watch(256); }), Grid::Losses{});
  std::filesystem::remove_all(root_ + "/out");
  const char* reason =
      "incomplete: DataLoader workers are not in the CPU time of workers: more than 256 live";
  EXPECT_EQ(losses_of([&] { watch(300); }), (Grid::Losses{{reason, 44}}));
}

TEST_F(Bounds, OfOtherChildren) {
  const auto list = [&](int count) {
    std::string pids;
    for (int pid = 1; pid <= count; ++pid) pids += std::to_string(1000 + pid) + " ";
    const std::string own = std::to_string(getpid());
    file("proc/" + own + "/task/" + own + "/children", pids);
    read_other_children_cpu_ns(roots());
  };
  const char* reason =
      "incomplete: readings of the CPU time of other child processes are too low: more than 64 live";
  EXPECT_EQ(losses_of([&] {
              list(64);
              list(65);
              list(90);
            }),
            (Grid::Losses{{reason, 2}}));
}

}  // namespace
}  // namespace gpuwatch::context
