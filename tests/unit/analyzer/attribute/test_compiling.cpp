// SPDX-License-Identifier: Apache-2.0
// A compiler at work, by the Python stacks of the calls that it makes.
#include <gtest/gtest.h>

#include "analyzer/model/compiler.h"
#include "run_builder.h"

namespace gpuwatch {
namespace {

using attribute::Category;
using attribute::RankAttribution;
using test::ms;
using test::RunBuilder;
using trace::OpClass;

constexpr char kCompiler[] =
    "/usr/lib/python3.11/concurrent/futures/_base.py:451 Future.result\n"
    "/a/site-packages/torch/_inductor/graph.py:2100 GraphLowering.compile_to_module\n"
    "/a/site-packages/torch/_dynamo/convert_frame.py:900 compile_inner\n"
    "/home/a/train.py:21 main\n";
constexpr char kCompiledCode[] =
    "/tmp/torchinductor_a/ab/cabc.py:10 call\n"
    "/a/site-packages/torch/_inductor/output_code.py:600 CompiledFxGraph.__call__\n"
    "/a/site-packages/torch/_dynamo/eval_frame.py:700 compile_wrapper\n"
    "/home/a/train.py:21 main\n";

class Compiling : public ::testing::Test, public RunBuilder {
 protected:
  void stack(model::Ns begin, const char* text) {
    const auto id = uint32_t(run.texts.size() + 1);
    run.texts[id] = text;
    process().threads[main_].stacks.push_back({begin, id});
  }
  uint32_t main_ = thread("main");
};

TEST_F(Compiling, WaitsAndFilesOfTheCompilerAreCompiling) {
  stack(ms(10), kCompiler);
  stack(ms(30), kCompiler);
  stack(ms(50), kCompiledCode);
  call(main_, OpClass::Wait, ms(10), ms(20));
  call(main_, OpClass::ChildWait, ms(30), ms(35));
  call(main_, OpClass::Wait, ms(50), ms(60));  // OpenMP's threads
  const RankAttribution row = attribute(0, {ms(100)});
  EXPECT_EQ(row.time(Category::Compile), ms(15));
  EXPECT_EQ(row.time(Category::Compute), ms(85));
}

TEST_F(Compiling, KeepsADeviceWaiting) {
  stack(ms(10), kCompiler);
  kernel(main_, {0, ms(1)}, {ms(1), ms(5)});
  call(main_, OpClass::Wait, ms(10), ms(20));
  kernel(main_, {ms(20), ms(21)}, {ms(21), ms(30)});
  const RankAttribution row = attribute(0, {ms(30)});
  EXPECT_EQ(row.time(Category::Compile), ms(10));
}

TEST_F(Compiling, NamesTheLineThatIsCompiled) {
  stack(ms(10), kCompiler);
  call(main_, OpClass::Wait, ms(10), ms(20));
  attribute(0, {ms(100)});
  const model::Thread& thread = process().threads[main_];
  const auto line = model::compiled_line_of(run, thread, thread.calls[0]);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->location(), "/home/a/train.py:21");
}

}  // namespace
}  // namespace gpuwatch
