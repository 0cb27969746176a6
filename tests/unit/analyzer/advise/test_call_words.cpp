// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/advise/call_words.h"

namespace gpuwatch::advise {
namespace {

TEST(CallWords, ArePyTorchsWhereItMadeTheCall) {
  model::Process process;
  EXPECT_EQ(call_words(process, "cudaMemsetAsync"), "cudaMemsetAsync");
  process.facts["torch"] = "";  // of an imported trace: which version is not known
  EXPECT_EQ(call_words(process, "cudaMemsetAsync"), "model.zero_grad() or torch.zeros (cudaMemsetAsync)");
  EXPECT_EQ(call_words(process, "cudaStreamSynchronize"),
            ".item(), .cpu() or print of a tensor (cudaStreamSynchronize)");
  EXPECT_EQ(call_words(process, "pthread_cond_wait"), "pthread_cond_wait");
}

}  // namespace
}  // namespace gpuwatch::advise
