// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "analyzer/advise/diagnose.h"
#include "analyzer/report/report.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::report {
namespace {

struct Made {
  test::Job job = test::make_device_job({{.device_us = 800}, {.device_us = 200}}, 50);
  std::string text_of(TextStyle style) {
    for (size_t i = 0; i < job.run.kernels.size(); ++i)
      job.run.kernels[i].name =
          i % 2 ? "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(P)"
                : "ampere_sgemm_128x64_nn";
    const advise::Diagnosis diagnosis = advise::diagnose(job.run, job.ranks);
    return text(Report{job.run, job.ranks, diagnosis, "0.1.0"}, style);
  }
};

TEST(KernelRows, ShowClassesKernelsAndTheQueueWhenAsked) {
  Made made;
  EXPECT_EQ(made.text_of({}).find("reduce_kernel"), std::string::npos);
  const std::string shown = made.text_of({.shows_kernels = true});
  for (const char* words : {"GPU work by class", "0.80   ", " matmuls\n", " reductions and losses\n",
                            "kernels that take most of the time", " ampere_sgemm_128x64_nn\n",
                            " reduce_kernel\n", "\nlaunch queue: kernels start "})
    EXPECT_NE(shown.find(words), std::string::npos) << words << "\n" << shown;
}

TEST(KernelRows, KeepToTheTerminalsWidth) {
  Made made;
  std::istringstream lines(made.text_of({.shows_kernels = true, .width = 60}));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 60u) << line;
}

TEST(KernelRows, JsonHasThem) {
  Made made;
  made.text_of({});
  const advise::Diagnosis diagnosis = advise::diagnose(made.job.run, made.job.ranks);
  const auto work = json(Report{made.job.run, made.job.ranks, diagnosis, "0.1.0"})["ranks"][0]["device_work"];
  ASSERT_EQ(work["kernel_classes"].size(), 2);
  EXPECT_EQ(work["kernel_classes"][0]["class"], "matmul");
  EXPECT_NEAR(work["kernel_classes"][0]["share"].get<double>(), 0.8, 0.02);
  EXPECT_EQ(work["kernels"][1]["class"], "reduction");
  EXPECT_TRUE(work["communication"].is_null());
  EXPECT_EQ(work["launch_queue"]["launches"], 100);
  const test::Job without_device = test::make_loader_job({});
  const advise::Diagnosis none = advise::diagnose(without_device.run, without_device.ranks);
  EXPECT_TRUE(json(Report{without_device.run, without_device.ranks, none, "0.1.0"})["ranks"][0]["device_work"]
                  .is_null());
}

}  // namespace
}  // namespace gpuwatch::report
