// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
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

}  // namespace
}  // namespace gpuwatch::advise
