// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/applicable.h"

#include <gtest/gtest.h>

#include "analyzer/io/user_error.h"

namespace gpuwatch::trial {
namespace {

TEST(Applicable, GoodSettingsPass) {
  for (const char* settings :
       {"num_workers=4", "num_workers=4,prefetch_factor=8@train.py:88",
        "in_order=False,pin_memory=True@/a/b c.py:1",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:64,num_workers=0",
        "multiprocessing_context=forkserver,float32_matmul_precision=high"})
    EXPECT_NO_THROW(check_settings(settings)) << settings;
}

TEST(Applicable, OthersAreNamed) {
  for (const char* settings :
       {"", "num_workers", "workers=4", "num_workers=", "num_workers=-1", "num_workers=four",
        "num_workers=123456", "pin_memory=yes", "multiprocessing_context=or",
        "multiprocessing_context=thread", "multiprocessing_context=spaw",
        "multiprocessing_context=fork, forkserver", "gc_freeze=True@train.py:3", "num_workers=4@",
        "num_workers=4,,batch_size=3", "batch_size=64"})
    EXPECT_THROW(check_settings(settings), io::UserError) << settings;
}

TEST(Applicable, WhatChangesResultsIsKnown) {
  EXPECT_EQ(find_applicable("batch_size"), nullptr);
  EXPECT_EQ(find_applicable("cudnn_benchmark")->effect, Effect::Bits);
  EXPECT_EQ(find_applicable("in_order")->effect, Effect::Order);
  EXPECT_EQ(find_applicable("prefetch_factor")->effect, Effect::None);
}

}  // namespace
}  // namespace gpuwatch::trial
