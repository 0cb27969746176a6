// SPDX-License-Identifier: Apache-2.0
// The kernel's files of a machine that does not exist: a test writes those that it is about.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "libinject/machine/roots.h"

namespace gpuwatch::tests {

class MadeUpMachine : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/gpuwatch-machine-XXXXXX";
    root_ = mkdtemp(pattern);
    proc_ = root_ + "/proc";
    sys_ = root_ + "/sys";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void file(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  machine::Roots roots() const { return {proc_.c_str(), sys_.c_str()}; }

  std::string root_, proc_, sys_;
};

}  // namespace gpuwatch::tests
