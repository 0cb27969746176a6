// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/advise/location.h"

namespace gpuwatch::advise {
namespace {

TEST(Location, IsModuleAndOffsetWhereTheModuleCannotBeRead) {
  model::Process process;
  process.modules = {{0x10000, 0x1000, "/nonexistent/app"}};
  EXPECT_EQ(address_location(process, 0x10040), "app+0x40");
  EXPECT_EQ(address_location(process, 0x20000), "");
}

TEST(Location, OpensNothingButRegularFiles) {
  model::Process process;
  process.modules = {{0x10000, 0x1000, "/dev/zero"}, {0x30000, 0x1000, "relative; rm -rf $HOME"}};
  EXPECT_EQ(address_location(process, 0x10040), "zero+0x40");
  EXPECT_EQ(address_location(process, 0x30040), "relative; rm -rf $HOME+0x40");
}

TEST(Location, HasNoneForACallWithoutDetail) {
  model::Run run;
  model::Process process;
  process.threads.resize(1);
  process.threads[0].calls.push_back({0, 1, 0, 0, model::kNone, 0, trace::OpClass::Sync, 0});
  EXPECT_EQ(call_location(run, process, 0, 0), "");
  EXPECT_EQ(call_location(run, process, 5, 0), "");
}

TEST(Location, IsTheUsersLineOfTheCallsStack) {
  model::Run run;
  run.texts[9] = "/v/site-packages/torch/_tensor.py:7 item\n/home/u/train.py:31 main";
  model::Process process;
  process.threads.resize(1);
  process.threads[0].calls.push_back({10, 90, 0, 0, model::kNone, 0, trace::OpClass::Sync, 0});
  process.threads[0].calls.push_back({100, 190, 0, 0, model::kNone, 0, trace::OpClass::Checkpoint, 0});
  process.threads[0].stacks = {{10, 9}, {100, 9}};
  EXPECT_EQ(call_location(run, process, 0, 0), "/home/u/train.py:31");
  EXPECT_EQ(call_location(run, process, 0, 1), "/home/u/train.py:31");
}

// The caller of cudaMemset is in libcudart, of a wait in libstdc++: the user wrote neither.
TEST(Location, IsNoPlaceInALibraryThatEveryProgramHas) {
  model::Process process;
  process.modules = {{0x10000, 0x1000, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"},
                     {0x30000, 0x1000, "/opt/cuda/lib64/libcudart.so.13"},
                     {0x50000, 0x1000, "/nonexistent/libtrainer.so"}};
  EXPECT_EQ(address_location(process, 0x10040), "libstdc++.so.6");
  EXPECT_EQ(address_location(process, 0x30040), "libcudart.so.13");
  EXPECT_EQ(address_location(process, 0x50040), "libtrainer.so+0x40") << "a library of the user's";
}

TEST(Location, IsTheUsersFrameBehindTheLibrarys) {
  model::Run run;
  model::Process process;
  process.modules = {{0x10000, 0x1000, "/lib/x86_64-linux-gnu/libc.so.6"},
                     {0x50000, 0x1000, "/nonexistent/app"}};
  run.texts[8] = "0x10040\n0x10080";
  run.texts[9] = "0x10040\n0x50040";
  process.threads.resize(1);
  for (const model::Ns begin : {10, 100})
    process.threads[0].calls.push_back({begin, begin + 80, 0, 0, model::kNone, 0, trace::OpClass::Wait, 0});
  process.threads[0].stacks = {{10, 8}, {100, 9}};
  EXPECT_EQ(call_location(run, process, 0, 0), "libc.so.6");
  EXPECT_EQ(call_location(run, process, 0, 1), "app+0x40");
}

}  // namespace
}  // namespace gpuwatch::advise
