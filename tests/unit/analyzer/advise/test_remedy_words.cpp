// SPDX-License-Identifier: Apache-2.0
// Fixes of GPU work in the words of the framework that trains, also where others are loaded with it.
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/model/training_framework.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;
using trace::RecordKind;
using Facts = std::map<std::string, std::string>;

const Facts kTensorFlow = {{"python", "3.11.7"}, {"tensorflow", "2.21.0"}, {"keras", "3.15.1"}};
const Facts kJax = {{"python", "3.11.7"}, {"jax", "0.10.2"}};
constexpr size_t kSteps = 100;

struct Case {
  Facts facts;
  const char* wanted;
};

Finding finding_of(const char* id, const std::vector<Action>& step, Category category, double share,
                   const Facts& facts, const std::string& kernel = "") {
  test::Job job = test::make_device_job(step, kSteps);
  job.process().facts = facts;
  test::set_shares(job, {{category, share}});
  model::Device& device = job.process().devices[0];
  device.name = "NVIDIA A100-SXM4-80GB";
  device.compute_major = 8;
  for (model::Kernel& known : job.run.kernels)
    if (!kernel.empty()) known.name = kernel;
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* found = find(diagnosis.findings, id);
  return found ? *found : Finding{};
}

void expect_words(const Finding& finding, const char* wanted) {
  EXPECT_NE(finding.fix.summary.find(wanted), std::string::npos) << finding.fix.summary;
  for (const char* foreign : {"torch", "cudaStream", "cublas", "CUDA graph", "cudaMemcpy"}) {
    EXPECT_EQ(finding.fix.summary.find(foreign), std::string::npos) << finding.fix.summary;
    EXPECT_EQ(finding.fix.snippet.find(foreign), std::string::npos) << finding.fix.snippet;
    EXPECT_EQ(setting_name(finding.fix.change).find(foreign), std::string::npos);
  }
}

TEST(RemedyWords, OfAStepWithManyLaunches) {
  const std::vector<Action> step(50, Action{.gap_us = 8, .cost_us = 4, .device_us = 3});
  for (const auto& [facts, wanted] :
       {Case{kTensorFlow, "tf.function(jit_compile=True)"}, Case{kJax, "jax.jit"}}) {
    const Finding finding = finding_of("launch-bound", step, Category::LaunchDispatch, 0.5, facts);
    expect_words(finding, wanted);
    EXPECT_FALSE(finding.prediction) << "what XLA makes of these kernels is not known";
    EXPECT_TRUE(finding.ceiling_speedup);
  }
}

TEST(RemedyWords, OfAValueReadInEachStep) {
  const std::vector<Action> step = {
      {.gap_us = 300, .device_us = 500},
      {.op_class = OpClass::Sync, .cost_us = 2, .waits = true, .caller = 0x1000}};
  for (const auto& [facts, wanted] : {Case{kTensorFlow, ".numpy()"}, Case{kJax, "block_until_ready()"}}) {
    const Finding finding = finding_of("sync-per-step", step, Category::Sync, 0.37, facts);
    expect_words(finding, wanted);
    EXPECT_TRUE(finding.prediction);
  }
}

TEST(RemedyWords, OfMatmulsWithoutTensorCores) {
  const std::vector<Action> step = {{.device_us = 800}, {.device_us = 200}};
  for (const auto& [facts, wanted] :
       {Case{kTensorFlow, "tf.keras.mixed_precision"}, Case{kJax, "jax_default_matmul_precision"}})
    expect_words(
        finding_of("mixed-precision", step, Category::Compute, 0.95, facts, "ampere_sgemm_128x64_nn"),
        wanted);
}

TEST(RemedyWords, OfAGpuThatIsNotUsed) {
  for (const auto& [facts, wanted] : {Case{kTensorFlow, "tensorflow[and-cuda]"}, Case{kJax, "jax[cuda13]"}}) {
    test::Job job = test::make_loader_job({.workers = 4, .batches = 1000});
    job.process().facts = facts;
    job.process().facts["gpus"] = "1";
    const Diagnosis diagnosis = diagnose(job.run, job.ranks);
    const Finding* finding = find(diagnosis.findings, "gpu-unused");
    ASSERT_NE(finding, nullptr);
    expect_words(*finding, wanted);
  }
}

TEST(RemedyWords, FillInTheType) {
  model::Process process;
  process.facts = kTensorFlow;
  EXPECT_EQ(remedy_words(process, Remedy::kHalfPrecision, "float16")->value, "mixed_float16");
  process.facts = kJax;
  EXPECT_EQ(remedy_words(process, Remedy::kHalfPrecision, "float16")->value, "jnp.float16");
  process.facts = {{"torch", "2.13.0"}};
  EXPECT_FALSE(remedy_words(process, Remedy::kHalfPrecision, "float16"));
  process.facts.clear();
  EXPECT_FALSE(remedy_words(process, Remedy::kHalfPrecision, "float16"));
}

// ---- whose words ------------------------------------------------------------------------------------------

struct Loaded {
  Facts facts;
  bool steps_optimizer;  // torch's
  const char* loader;    // "": none
  const char* wanted;
};

TEST(TrainingFramework, IsTheOneThatSteps) {
  const Loaded loaded[] = {
      {{{"torch", "2"}}, false, "", "torch"},
      {{{"torch", "2"}, {"tensorflow", "2"}}, true, "", "torch"},   // for TensorBoard
      {{{"torch", "2"}, {"tensorflow", "2"}}, false, "", "torch"},  // its optimizer is not known
      {{{"torch", "2"}, {"tensorflow", "2"}}, false, "tf.data", "tensorflow"},
      {{{"jax", "0"}}, false, "", "jax"},
      {{{"torch", "2"}, {"jax", "0"}, {"jax_compiles", "yes"}}, false, "torch", "jax"},  // its DataLoader
      {{{"torch", "2"}, {"jax", "0"}, {"jax_compiles", "yes"}}, true, "torch", "torch"},
      {{{"torch", "2"}, {"jax", "0"}}, false, "torch", "torch"},
      {{{"tensorflow", "2"}, {"jax", "0"}, {"jax_compiles", "yes"}}, false, "tf.data", "jax"},  // tf.data
      {{{"tensorflow", "2"}, {"jax", "0"}}, false, "tf.data", "tensorflow"},  // Keras imports JAX
      {{{"tensorflow", "2"}, {"jax", "0"}, {"computes_with", "TensorFlow"}}, false, "", "tensorflow"},
      {{{"tensorflow", "2"}}, false, "", "tensorflow"},
  };
  for (const Loaded& each : loaded) {
    model::Process process;
    process.facts = each.facts;
    model::Thread& thread = process.threads.emplace_back();
    if (each.steps_optimizer) thread.calls.emplace_back().op_class = OpClass::OptimizerStep;
    if (*each.loader) process.loaders.emplace_back().framework = each.loader;
    const model::TrainingFramework* found = model::training_framework(process);
    ASSERT_NE(found, nullptr);
    EXPECT_STREQ(found->module, each.wanted) << each.facts.begin()->first << ", " << each.loader;
  }
  EXPECT_EQ(model::training_framework({}), nullptr);
}

// ---- stages of a pipeline ---------------------------------------------------------------------------------

TEST(PipelineStages, HaveTheirLines) {
  model::Loader loader;
  loader.framework = "tf.data";
  loader.dataset = "Prefetch < Batch < Map (tf.py_function) < Range";
  loader.stages = "a.py:4\na.py:3\n\na.py:1\n";
  loader.location = "a.py:9";
  const auto stages = pipeline_stages(loader);
  ASSERT_EQ(stages.size(), 4u);
  EXPECT_TRUE(stages[2].is("Map") && stages[2].is("tf.py_function") && !stages[1].is("tf.py_function"));
  EXPECT_EQ(stages[2].location, "");
  EXPECT_EQ(stages[3].location, "a.py:1");
  EXPECT_EQ(batch_size_location(loader), "a.py:3");
  loader.stages.clear();  // a trace from before 1.4
  EXPECT_EQ(pipeline_stages(loader).size(), 4u);
  EXPECT_EQ(batch_size_location(loader), "a.py:9");
  loader.framework = "torch";  // a dataset's class may have any name
  EXPECT_TRUE(pipeline_stages(loader).empty());
}

}  // namespace
}  // namespace gpuwatch::advise
