// SPDX-License-Identifier: Apache-2.0
// How long the libraries' stand-ins keep the device: recurrent layers, Fourier transforms, decompositions.
// The numbers follow from duration.conf by hand: 1000 flop per ns at half of it, 100 bytes per ns, 3 us
// before a matmul and 10 us before other kernels.
#include <cmath>
#include <map>
#include <numeric>

#include "core/decomposition.h"
#include "device_program.h"

extern "C" {
int cufftPlanMany(int* handle, int rank, const int* lengths, const int*, int, int, const int*, int, int,
                  int type, int batch);
int cufftSetStream(int handle, void* stream);
int cufftExecC2C(int handle, void*, void*, int);
int cufftDestroy(int handle);
int cudnnCreate(void** handle);
int cudnnDestroy(void* handle);
int cudnnSetStream(void* handle, void* stream);
int cudnnCreateRNNDescriptor(void** network);
int cudnnDestroyRNNDescriptor(void* network);
int cudnnSetRNNDescriptor_v8(void* network, int algorithm, int mode, int bias, int direction, int input_mode,
                             int type, int precision, int math, int input, int hidden, int projection,
                             int layers, void* dropout, unsigned flags);
int cudnnCreateRNNDataDescriptor(void** data);
int cudnnDestroyRNNDataDescriptor(void* data);
int cudnnSetRNNDataDescriptor(void* data, int type, int layout, int steps, int sequences, int vector,
                              const int* lengths, void* padding);
int cudnnGetRNNWeightSpaceSize(void* handle, void* network, size_t* bytes);
int cudnnGetRNNWeightParams(void* handle, void* network, int layer, size_t, const void* space, int linear,
                            void* matrix, void** matrix_at, void* bias, void** bias_at);
int cudnnRNNForward(void* handle, void* network, int mode, const int* lengths, void* x);
int nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*,
                       const char* const*);
int nvrtcAddNameExpression(void* program, const char* expression);
int nvrtcCompileProgram(void* program, int, const char* const*);
int nvrtcGetLoweredName(void* program, const char* expression, const char** name);
int nvrtcDestroyProgram(void** program);
}

namespace {

using namespace gpuwatch::sim;

constexpr int kC2C = 0x29;
constexpr double kOtherUs = 10;

double transform_us(std::initializer_list<int> lengths, int batch) {
  TestStream stream;
  Event begin, end;
  Gate gate;
  int plan = 0;
  EXPECT_EQ(cufftPlanMany(&plan, static_cast<int>(lengths.size()), lengths.begin(), nullptr, 1, 1, nullptr, 1,
                          1, kC2C, batch),
            0);
  EXPECT_EQ(cufftSetStream(plan, static_cast<cudaStream_t>(stream)), 0);
  EXPECT_EQ(gate.hold(stream), cudaSuccess);
  begin.record(stream);
  EXPECT_EQ(cufftExecC2C(plan, nullptr, nullptr, -1), 0);
  end.record(stream);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cufftDestroy(plan), 0);
  return elapsed_us(begin, end);
}

double sum_us(const std::vector<LibraryKernel>& kernels) {
  return std::accumulate(kernels.begin(), kernels.end(), 0.0, [](double sum, const LibraryKernel& kernel) {
    return sum + static_cast<double>(kernel.duration_ns) / 1e3;
  });
}

}  // namespace

// 1000 signals of 1024 elements of 8 bytes, read and written.
TEST(FourierTransform, TakesTheTimeOfItsMemory) {
  EXPECT_NEAR(transform_us({1024}, 1000), kOtherUs + 2 * 1000 * 1024 * 8 / 100 / 1e3, kExactUs);
}

TEST(FourierTransform, IsAKernelForEachDimensionAndForWhatDoesNotFitIntoABlock) {
  const double one_us = kOtherUs + 2.0 * (1 << 20) * 8 / 100 / 1e3;
  EXPECT_NEAR(transform_us({4096}, 256), one_us, kExactUs);
  EXPECT_NEAR(transform_us({1024, 1024}, 1), 2 * one_us, kExactUs);
  EXPECT_NEAR(transform_us({1 << 20}, 1), 2 * one_us, kExactUs);
}

TEST(Decomposition, OfOnePanelIsOneKernel) {
  const std::vector<LibraryKernel> kernels =
      decomposition_kernels({.what = Decomposition::kLu, .m = 128, .n = 128});
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "getrf_panel_kernel<float>");
  EXPECT_EQ(kernels[0].duration_ns, 10'000 + 4194);  // 128^3 flop; the memory takes 1311 ns
}

// Three panels, and after all but the last a solve and a product with what is left.
TEST(Decomposition, IsBlocked) {
  const std::vector<LibraryKernel> kernels =
      decomposition_kernels({.what = Decomposition::kLu, .m = 384, .n = 384});
  EXPECT_EQ(kernels.size(), 3u + 2 * 2);
  EXPECT_TRUE(decomposition_kernels({.what = Decomposition::kLu, .m = 0, .n = 5}).empty());
}

// LAPACK's operation counts. What a last wave does not fill comes on top; what is not cut evenly, of both.
TEST(Decomposition, TakesTheTimeOfItsArithmetic) {
  constexpr uint64_t kN = 4096;
  constexpr double kCubeUs = double(kN) * kN * kN / 500 / 1e3;
  const auto expect = [](double cubes, Decomposition what, uint64_t other = 0) {
    const double us = sum_us(decomposition_kernels({.what = what, .m = kN, .n = kN, .other = other}));
    EXPECT_GT(us, 0.98 * cubes * kCubeUs);
    EXPECT_LT(us, 1.2 * cubes * kCubeUs);
  };
  expect(2.0 / 3, Decomposition::kLu);
  expect(1.0 / 3, Decomposition::kCholesky);
  expect(4.0 / 3, Decomposition::kQr);
  expect(4.0 / 3, Decomposition::kFormQ, kN);
  expect(2, Decomposition::kApplyQ, kN);
  expect(1, Decomposition::kTriangular, kN);
}

// The reduction multiplies every column with all that is left: n^3 / 3 elements of 4 bytes.
TEST(Decomposition, OfSymmetricMatricesTakesTheTimeOfItsMemory) {
  const double us =
      sum_us(decomposition_kernels({.what = Decomposition::kSymmetricEigen, .m = 4096, .n = 4096}));
  EXPECT_GT(us, std::pow(4096.0, 3) / 3 * 4 / 100 / 1e3);
}

TEST(Decomposition, OfABatchIsOneKernel) {
  const DenseTask task{.what = Decomposition::kCholesky, .m = 64, .n = 64};
  const LibraryKernel kernel = batched_kernel("potrfBatched", task, 1000);
  EXPECT_EQ(kernel.name, "potrfBatched_kernel<float>");
  EXPECT_EQ(kernel.duration_ns, 10'000 + 1000 * 64 * 64 * 64 / 500);
}

TEST(Matmul, OfComplexNumbersTakesFourTimesAsMany) {
  Matmul real, complex;
  real.m = real.n = real.k = complex.m = complex.n = complex.k = 1024;
  complex.precision = MatmulPrecision::kC32;
  EXPECT_DOUBLE_EQ(matmul_arithmetic_ns(complex), 4 * matmul_arithmetic_ns(real));
}

namespace {

constexpr int kLstm = 2, kFma = 3, kFloat = 0;
constexpr int kInput = 64, kHidden = 128;

// An LSTM in single precision without tensor cores, and sequences for it.
class Network {
 public:
  Network(bool persistent, bool bidirectional, std::initializer_list<int> lengths) {
    EXPECT_EQ(cudnnCreate(&handle), 0);
    EXPECT_EQ(cudnnCreateRNNDescriptor(&network), 0);
    EXPECT_EQ(cudnnSetRNNDescriptor_v8(network, persistent, kLstm, 2, bidirectional, 0, kFloat, kFloat, kFma,
                                       kInput, kHidden, kHidden, 1, nullptr, 0),
              0);
    EXPECT_EQ(cudnnCreateRNNDataDescriptor(&data), 0);
    EXPECT_EQ(cudnnSetRNNDataDescriptor(data, kFloat, 0, *lengths.begin(), static_cast<int>(lengths.size()),
                                        kInput, lengths.begin(), nullptr),
              0);
  }
  ~Network() {
    cudnnDestroyRNNDataDescriptor(data);
    cudnnDestroyRNNDescriptor(network);
    cudnnDestroy(handle);
  }

  double forward_us() {
    TestStream stream;
    Event begin, end;
    Gate gate;
    EXPECT_EQ(cudnnSetStream(handle, static_cast<cudaStream_t>(stream)), 0);
    EXPECT_EQ(gate.hold(stream), cudaSuccess);
    begin.record(stream);
    EXPECT_EQ(cudnnRNNForward(handle, network, 1, nullptr, data), 0);
    end.record(stream);
    gate.open();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return elapsed_us(begin, end);
  }

  void* handle = nullptr;
  void* network = nullptr;
  void* data = nullptr;
};

double matmul_us(uint64_t m, uint64_t n, uint64_t k) {
  Matmul mm;
  mm.m = m, mm.n = n, mm.k = k;
  return static_cast<double>(matmul_duration_ns(mm)) / 1e3;
}

// 3 values for each of four gates, and cell and output read and written.
double cells_us(int sequences) {
  return kOtherUs + (3 * 4 + 4) * kHidden * sequences * 4 / 100 / 1e3;
}

}  // namespace

// Three sequences of 3, 2 and 2 elements: as many run at each time step.
TEST(RecurrentLayer, TakesAMatmulForAllInputsAndOneForEachTimeStep) {
  Network network(false, false, {3, 2, 2});
  const double input_us = matmul_us(4 * kHidden, 7, kInput);
  const double steps_us = 2 * (matmul_us(4 * kHidden, 3, kHidden) + cells_us(3)) +
                          matmul_us(4 * kHidden, 1, kHidden) + cells_us(1);
  EXPECT_NEAR(network.forward_us(), input_us + steps_us, 10 * kExactUs);
}

TEST(RecurrentLayer, OfThePersistentAlgorithmHasNoFixedPartOfEachStep) {
  const double standard_us = Network(false, false, {10}).forward_us();
  const double persistent_us = Network(true, false, {10}).forward_us();
  EXPECT_NEAR(standard_us - persistent_us, 10 * (3 + kOtherUs) - kOtherUs, 10 * kExactUs);
}

// PyTorch shows each gate's weights as one tensor with the next one's, so they must lie together.
TEST(RecurrentLayer, HasItsWeightsWithoutGapsAndApart) {
  Network network(false, true, {1});
  const char* space = reinterpret_cast<const char*>(0x1000);
  std::map<size_t, size_t> parts;  // offset: bytes
  const auto add = [&](const void* at, size_t bytes) {
    parts[static_cast<size_t>(static_cast<const char*>(at) - space)] = bytes;
  };
  for (int direction = 0; direction < 2; ++direction) {
    for (int linear = 0; linear < 8; ++linear) {
      void *matrix = nullptr, *bias = nullptr;
      ASSERT_EQ(cudnnGetRNNWeightParams(network.handle, network.network, direction, 0, space, linear, nullptr,
                                        &matrix, nullptr, &bias),
                0);
      add(matrix, size_t{4} * kHidden * (linear < 4 ? kInput : kHidden));
      add(bias, size_t{4} * kHidden);
    }
  }
  size_t end = 0, all = 0;
  for (const auto& [offset, bytes] : parts) {
    EXPECT_EQ(offset, end);
    end = offset + bytes;
  }
  EXPECT_EQ(cudnnGetRNNWeightSpaceSize(network.handle, network.network, &all), 0);
  EXPECT_EQ(end, all);
  EXPECT_EQ(parts.size(), 2u * 16);
}

TEST(RunTimeCompiler, KeepsTheNameOfATemplate) {
  void* program = nullptr;
  const char* name = nullptr;
  ASSERT_EQ(nvrtcCreateProgram(&program, "template <class T> __global__ void scale(T*);", nullptr, 0, nullptr,
                               nullptr),
            0);
  ASSERT_EQ(nvrtcAddNameExpression(program, " &scale<float>"), 0);
  EXPECT_NE(nvrtcGetLoweredName(program, " &scale<float>", &name), 0);
  ASSERT_EQ(nvrtcCompileProgram(program, 0, nullptr), 0);
  ASSERT_EQ(nvrtcGetLoweredName(program, " &scale<float>", &name), 0);
  EXPECT_STREQ(name, "scale<float>");
  EXPECT_NE(nvrtcGetLoweredName(program, "scale<double>", &name), 0);
  EXPECT_EQ(nvrtcDestroyProgram(&program), 0);
}
