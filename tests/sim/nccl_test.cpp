// SPDX-License-Identifier: Apache-2.0
// Collectives of one process: what the kernels are called, how long they take, who waits for whom.
#include <nccl.h>

#include <cstring>
#include <vector>

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

// Two ints on each device: what a rank sends and where it receives.
struct RankBuffers {
  RankBuffers(int first, int second) {
    const int values[2] = {first, second};
    EXPECT_CUDA(cudaMalloc(&at, sizeof values));
    EXPECT_CUDA(cudaMemcpy(at, values, sizeof values, cudaMemcpyHostToDevice));
  }
  ~RankBuffers() { cudaFree(at); }
  std::vector<int> read() const {
    std::vector<int> values(2);
    EXPECT_CUDA(cudaMemcpy(values.data(), at, 2 * sizeof(int), cudaMemcpyDeviceToHost));
    return values;
  }
  int* at = nullptr;
};

using Ints = std::vector<int>;

TEST(Nccl, MessagesReallyMove) {
  TwoRanks ranks;
  RankBuffers zero(1, 2), one(10, 20);
  RankBuffers* const buffers[] = {&zero, &one};
  const auto for_ranks = [&](auto call) {
    ASSERT_NCCL(ncclGroupStart());
    for (int rank = 0; rank < 2; ++rank)
      ASSERT_NCCL(call(buffers[rank]->at, ranks.comms[rank], ranks.streams[rank], rank));
    ASSERT_NCCL(ncclGroupEnd());
  };
  for_ranks([](int* at, ncclComm_t comm, cudaStream_t stream, int) {
    return ncclAllReduce(at, at, 2, ncclInt32, ncclSum, comm, stream);
  });
  EXPECT_EQ((Ints{11, 22}), zero.read());
  EXPECT_EQ((Ints{11, 22}), one.read());
  for_ranks([](int* at, ncclComm_t comm, cudaStream_t stream, int) {
    return ncclReduceScatter(at, at + 1, 1, ncclInt32, ncclMax, comm, stream);
  });
  EXPECT_EQ((Ints{11, 11}), zero.read());
  EXPECT_EQ((Ints{11, 22}), one.read());
  for_ranks([](int* at, ncclComm_t comm, cudaStream_t stream, int rank) {
    return ncclAllGather(at + rank, at, 1, ncclInt32, comm, stream);
  });
  EXPECT_EQ((Ints{11, 22}), zero.read());
  EXPECT_EQ((Ints{11, 22}), one.read());
  for_ranks([](int* at, ncclComm_t comm, cudaStream_t stream, int rank) {
    return rank ? ncclRecv(at + 1, 1, ncclInt32, 0, comm, stream)
                : ncclSend(at, 1, ncclInt32, 1, comm, stream);
  });
  EXPECT_EQ((Ints{11, 11}), one.read());
  for_ranks([](int* at, ncclComm_t comm, cudaStream_t stream, int) {
    return ncclBroadcast(at, at, 2, ncclInt32, 1, comm, stream);
  });
  EXPECT_EQ((Ints{11, 11}), zero.read());
}

TEST(Nccl, HalfPrecisionIsReducedToo) {
  TwoRanks ranks;
  const int bf16_one_and_two = 0x40003f80, f16_one_and_two = 0x40003c00;
  RankBuffers zero(bf16_one_and_two, f16_one_and_two), one(bf16_one_and_two, f16_one_and_two);
  RankBuffers* const buffers[] = {&zero, &one};
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    int* at = buffers[rank]->at;
    const auto comm = ranks.comms[rank];
    ASSERT_NCCL(ncclAllReduce(at, at, 2, ncclBfloat16, ncclSum, comm, ranks.streams[rank]));
    ASSERT_NCCL(ncclAllReduce(at + 1, at + 1, 2, ncclFloat16, ncclSum, comm, ranks.streams[rank]));
  }
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ((Ints{0x40804000, 0x44004000}), zero.read());  // two and four
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
