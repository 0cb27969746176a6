// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/model/packages.h"
#include "analyzer/model/script_work.h"
#include "run_builder.h"

namespace gpuwatch::model {
namespace {

// The frames of a run's only stack, innermost first, and then the script's line.
std::vector<StackFrame> frames_in(const std::string& lines, const std::string& script) {
  model::Run run;
  run.processes.resize(1);
  run.processes[0].script = script.substr(script.rfind('/') + 1);  // as the recorder writes it
  run.texts[1] = lines + "\n" + script + ":43 <module>";
  mark_packages(run);
  return frames_of(run.texts[1]);
}

bool is_scripts(const std::string& file, const std::string& script) {
  const auto frames = frames_in(file + ":9 function", script);
  EXPECT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames.front().location(), file + ":9");
  EXPECT_EQ(frames.front().function, "function");
  EXPECT_TRUE(is_users(frames.back()));
  return is_users(frames.front());
}

// fastai-photos of tests/abroad: torchvision was built in its source folder.
TEST(Packages, MayLieOutsideOfSitePackages) {
  const std::string file = "/opt/vision/torchvision/transforms/_functional_pil.py";
  EXPECT_FALSE(is_scripts(file, "/home/a/train.py"));
  const auto frames = frames_in(file + ":215 pad", "/home/a/train.py");
  EXPECT_EQ(library_of(frames.front()), "torchvision");
  EXPECT_EQ(users_frame(frames)->function, "<module>");
  EXPECT_FALSE(is_torch_or_interpreter(frames.front()));
  EXPECT_TRUE(is_torch_or_interpreter(
      frames_in("/src/pytorch/torch/nn/modules/linear.py:125 Linear.forward", "/home/a/train.py").front()));
}

TEST(Packages, AreNotWhereTheScriptLives) {
  EXPECT_TRUE(is_scripts("/home/a/keras/data.py", "/home/a/keras/train.py")) << "the project's name";
  EXPECT_TRUE(is_scripts("/home/a/keras/data.py", "/home/a/keras/jobs/train.py"));
  EXPECT_TRUE(is_scripts("/home/a/project/torch/data.py", "/home/a/project/train.py"))
      << "next to the script";
  EXPECT_TRUE(is_scripts("/home/a/project/triton/data.py", "/home/a/train.py")) << "a word of many projects";
  // A package's source, with examples in it.
  EXPECT_TRUE(is_scripts("/src/transformers/examples/utils.py", "/src/transformers/examples/train.py"));
  EXPECT_FALSE(
      is_scripts("/src/transformers/src/transformers/trainer.py", "/src/transformers/examples/train.py"));
}

// A notebook's kernel is a script of site-packages, and says nothing of where the cells' modules are.
TEST(Packages, NeedTheScriptsPlace) {
  EXPECT_TRUE(is_users(frames_in("/opt/vision/torchvision/ops/boxes.py:9 nms",
                                 "/v/lib/python3.11/site-packages/ipykernel_launcher.py")
                           .front()));
  model::Run run;
  run.processes.resize(1);
  run.processes[0].script = "train.py";
  run.texts[1] = "/opt/vision/torchvision/ops/boxes.py:9 nms";
  mark_packages(run);
  EXPECT_TRUE(is_users(frames_of(run.texts[1]).front()));
}

TEST(Packages, KeepGeneratorsAndOtherTexts) {
  model::Run run;
  run.processes.resize(1);
  run.processes[0].script = "train.py";
  run.processes[0].loaders.resize(1);
  run.processes[0].loaders[0].code =
      "/opt/vision/torchvision/datasets/folder.py:245 DatasetFolder.__getitem__";
  const std::string name = "/opt/vision/torchvision/ops/boxes.py: a range's name";
  run.texts = {{1, "/opt/src/fastai/data/load.py:141 DataLoader.create_batches*\n/home/a/train.py:4 main"},
               {2, name}};
  mark_packages(run);
  const StackFrame batches = frames_of(run.texts[1]).front();
  EXPECT_TRUE(batches.is_generator);
  EXPECT_EQ(batches.function, "DataLoader.create_batches");
  EXPECT_FALSE(is_users(batches));
  EXPECT_EQ(run.texts[2], name);
  EXPECT_FALSE(sample_code(run.processes[0].loaders[0]));
}

class MarkedRun : public test::OneThreadTest {};

TEST_F(MarkedRun, IsBuiltWithMarks) {
  trace_.text("/opt/vision/torchvision/ops/boxes.py:9 nms\n/home/a/train.py:43 <module>");
  slots_.host(trace_.operation("call", trace::OpClass::Other), 1000, 2000);
  EXPECT_EQ(process().script, "train.py");
  EXPECT_EQ(std::ranges::count_if(
                run_.texts,
                [](const auto& text) { return text.second.find("boxes.py:9 nms+") != std::string::npos; }),
            1);
}

// Functions are counted by name, and must not lose whose they are.
TEST(Packages, StayPackagesInTallies) {
  FunctionTallies tallies;
  tallies.add(frames_in("/opt/vision/torchvision/ops/boxes.py:9 nms", "/home/a/train.py").front(), 1);
  EXPECT_FALSE(is_users(tallies.by_share().front().frame));
}

}  // namespace
}  // namespace gpuwatch::model
