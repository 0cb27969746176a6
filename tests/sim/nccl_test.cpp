// SPDX-License-Identifier: Apache-2.0
// Collectives of one process: what the kernels are called, how long they take, who waits for whom.
#include <nccl.h>

#include <cstring>

#include "device_program.h"
#include "truth_file.h"

namespace {

const FakeKernel kThree("nccl_3ms");
constexpr size_t kFloats = 250'000;  // 1 MB: 100 us at 10 GB/s, plus 20 us

#define ASSERT_NCCL(call) ASSERT_EQ(ncclSuccess, (call))

TEST(Nccl, ACollectiveTakesLatencyAndBytesOverBandwidth) {
  ncclUniqueId id;
  ncclComm_t comm;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ASSERT_NCCL(ncclCommInitRank(&comm, 1, id, 0));
  TestStream stream;
  Event begin, end;
  Gate gate;
  ASSERT_CUDA(gate.hold(stream));
  begin.record(stream);
  ASSERT_NCCL(ncclAllReduce(nullptr, nullptr, kFloats, ncclFloat32, ncclSum, comm, stream));
  end.record(stream);
  gate.open();
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_NEAR(120, elapsed_us(begin, end), kExactUs);
  const auto kernels = truth_lines("op", "kernel");
  EXPECT_EQ("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            kernels.back().word("name"));
  EXPECT_FALSE(truth_lines("host", "ncclAllReduce").empty());
  ASSERT_NCCL(ncclCommDestroy(comm));
}

struct TwoRanks {
  TwoRanks() {
    EXPECT_EQ(ncclSuccess, ncclCommInitAll(comms, 2, nullptr));
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_CUDA(cudaSetDevice(rank));
      EXPECT_CUDA(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking));
    }
    EXPECT_CUDA(cudaSetDevice(0));
  }
  ~TwoRanks() {
    for (int rank = 0; rank < 2; ++rank) {
      ncclCommDestroy(comms[rank]);
      cudaStreamDestroy(streams[rank]);
    }
  }
  ncclComm_t comms[2];
  cudaStream_t streams[2];
};

TEST(Nccl, RanksWaitForTheLast) {
  TwoRanks ranks;
  Event begin, first_end, second_end;
  Gate gate;
  ASSERT_CUDA(gate.hold(ranks.streams[0]));
  begin.record(ranks.streams[0]);
  ASSERT_CUDA(cudaStreamWaitEvent(ranks.streams[1], begin, 0));
  ASSERT_CUDA(kThree.launch(ranks.streams[1]));  // the straggler
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_NCCL(ncclAllReduce(nullptr, nullptr, kFloats, ncclFloat32, ncclSum, ranks.comms[rank],
                              ranks.streams[rank]));
  }
  ASSERT_NCCL(ncclGroupEnd());
  first_end.record(ranks.streams[0]);
  second_end.record(ranks.streams[1]);
  gate.open();
  ASSERT_CUDA(cudaStreamSynchronize(ranks.streams[0]));
  ASSERT_CUDA(cudaStreamSynchronize(ranks.streams[1]));
  EXPECT_NEAR(3120, elapsed_us(begin, first_end), kExactUs);
  EXPECT_NEAR(0, elapsed_us(first_end, second_end), kExactUs);
}

TEST(Nccl, RanksThatSendToEachOtherInAGroupMeet) {
  TwoRanks ranks;
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_NCCL(ncclSend(nullptr, kFloats, ncclFloat32, 1 - rank, ranks.comms[rank], ranks.streams[rank]));
    ASSERT_NCCL(ncclRecv(nullptr, kFloats, ncclFloat32, 1 - rank, ranks.comms[rank], ranks.streams[rank]));
  }
  ASSERT_NCCL(ncclGroupEnd());
  ASSERT_CUDA(cudaStreamSynchronize(ranks.streams[0]));
  ASSERT_CUDA(cudaStreamSynchronize(ranks.streams[1]));
}

TEST(Nccl, AnIdOfAnotherProcessIsRefused) {
  ncclUniqueId id;
  ncclComm_t comm;
  std::memset(&id, 0, sizeof id);
  std::strcpy(id.internal, "gwsim 1 1");
  testing::internal::CaptureStderr();
  EXPECT_EQ(ncclInvalidUsage, ncclCommInitRank(&comm, 2, id, 0));
  EXPECT_NE(std::string::npos, testing::internal::GetCapturedStderr().find("several processes"));
}

TEST(Nccl, TheSecondNameIsTheSameFunction) {
  int version = 0;
  ASSERT_NCCL(pncclGetVersion(&version));
  EXPECT_EQ(NCCL_VERSION_CODE, version);
}

}  // namespace
