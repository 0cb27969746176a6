// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/short_paths.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gpuwatch::page {
namespace {

std::string shortened(const std::string& text) {
  return with_short_paths(text, {"/home/max/my project/", "/home/max/"});
}

TEST(ShortPaths, OfAFileItsNameStays) {
  EXPECT_EQ(shortened("/data/secret/train.py"), "train.py");
  EXPECT_EQ(shortened("Set num_workers=6 (/data/secret/train.py:104)"), "Set num_workers=6 (train.py:104)");
  EXPECT_EQ(shortened("reads \"/mnt/a/b.bin\", '/mnt/c/d.bin'"), "reads \"b.bin\", 'd.bin'");
  EXPECT_EQ(shortened("--data=/mnt/a/set"), "--data=set");
  EXPECT_EQ(shortened("folder /mnt/a/b/"), "folder b");
  EXPECT_EQ(shortened("~/secret/train.py"), "train.py");
}

TEST(ShortPaths, KnownFoldersMayHaveSpaces) {
  EXPECT_EQ(shortened("in augment (/home/max/my project/data.py:41)"), "in augment (data.py:41)");
}

TEST(ShortPaths, OfAPackageItsPlaceStays) {
  EXPECT_EQ(shortened("/opt/venv/lib/python3.12/site-packages/torch/utils/data/dataloader.py:7"),
            "torch/utils/data/dataloader.py:7");
}

TEST(ShortPaths, EachOfSeveral) {
  EXPECT_EQ(shortened("PATH=/usr/local/bin:/usr/bin"), "PATH=bin:bin");
  EXPECT_EQ(shortened("server:/export/data"), "server:data");
  EXPECT_EQ(shortened("file:///export/data"), "file:data");
}

TEST(ShortPaths, WhatIsNoPathStays) {
  for (const char* text : {"1200 samples/s", "read/write", "/", "/proc", "https://ui.perfetto.dev/x/y",
                           "a / b", "void at::native::reduce<512, 1>(float*)"})
    EXPECT_EQ(shortened(text), text);
}

TEST(ShortPaths, InAllStringsOfADocument) {
  nlohmann::ordered_json document = {{"a", "/x/y"}, {"b", {1, "/x/z", {{"c", "/x/w"}}}}};
  shorten_paths(document, {});
  EXPECT_EQ(document.dump(), R"({"a":"y","b":[1,"z",{"c":"w"}]})");
}

}  // namespace
}  // namespace gpuwatch::page
