// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/cli/analyze.h"
#include "analyzer/cli/run.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::cli {
namespace {

TEST(Steps, AreHalfOpenRanges) {
  EXPECT_EQ(parse_steps("10:20").begin, 10u);
  EXPECT_EQ(parse_steps("10:20").end, 20u);
  EXPECT_EQ(parse_steps(":20").begin, 0u);
  EXPECT_GT(parse_steps("10:").end, 1u << 30);
}

TEST(Steps, RefuseWhatTheyDoNotUnderstand) {
  for (const char* text : {"", ":", "5", "5:5", "9:3", "a:b", "1:2:3", "-1:4", "1: 2"})
    EXPECT_THROW(parse_steps(text), io::UserError) << text;
}

TEST(ScriptName, IsTheScriptAndNotTheInterpreter) {
  EXPECT_EQ(script_name({"python3", "-u", "dir/train.py", "--lr", "x.py"}), "train");
  EXPECT_EQ(script_name({"/usr/bin/python3.11", "-m", "torch.distributed.run", "train.py"}),
            "torch.distributed.run");
  EXPECT_EQ(script_name({"./trainer", "a.py"}), "trainer");
  EXPECT_EQ(script_name({"python"}), "python");
  EXPECT_EQ(script_name({"./we ird\n\x1b"}), "we_ird__");
  EXPECT_EQ(script_name({}), "run");
}

}  // namespace
}  // namespace gpuwatch::cli
