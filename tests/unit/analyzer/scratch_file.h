// SPDX-License-Identifier: Apache-2.0
// A file for one test, gone with it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "analyzer/io/user_error.h"

namespace gpuwatch::test {

inline testing::AssertionResult says(const std::string& sentence, const std::string& words) {
  if (sentence.find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << '"' << sentence << "\" does not say \"" << words << '"';
}

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "gpuwatch-kineto-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  ~FileTest() override { std::filesystem::remove_all(directory_); }

  std::string save(const std::string& bytes, const char* name = "trace.json") const {
    const std::string path = directory_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string save_gzip(const std::string& bytes) const {
    const std::string path = directory_ / "trace.json.gz";
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }
  // What the user is told; "" where nothing is wrong.
  template <class Call>
  static std::string error_of(Call call) {
    try {
      call();
    } catch (const io::UserError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path directory_;
};

}  // namespace gpuwatch::test
