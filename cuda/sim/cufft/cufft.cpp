// SPDX-License-Identifier: Apache-2.0
// The libcufft stand-in: plans, and transforms as one kernel for each dimension, or more where a signal does
// not fit into the shared memory of a thread block. Each kernel reads and writes the whole signal once and
// computes 5 n log2(n) flop a transform (Cooley and Tukey's count, by which NVIDIA reports too), whichever
// takes longer; a real signal is half as much. Lengths with large prime factors cost nothing extra, and
// strides do not either. Pointers are not looked at. Everything else that a framework wants of the library is
// a loud stub. Plans may be used by any thread, each by one at a time. Source of the values: NVIDIA's
// documentation of cuFFT (cufftResult, cufftType).
#include <library_types.h>

#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/library_launch.h"
#include "core/matmul.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

using namespace gpuwatch::sim;

namespace {

enum Status : int { kSuccess = 0, kInvalidPlan = 1, kInvalidType = 3, kInvalidValue = 4, kExecFailed = 6 };
enum Type : int { kR2C = 0x2a, kC2R = 0x2c, kC2C = 0x29, kD2Z = 0x6a, kZ2D = 0x6c, kZ2Z = 0x69 };

struct Plan {
  void* stream = nullptr;
  std::vector<uint64_t> lengths;
  uint64_t batch = 0;
  bool is_real = false;
  uint32_t complex_bytes = 8;

  uint64_t elements() const {
    uint64_t result = batch;
    for (const uint64_t length : lengths) result *= length;
    return is_real && !lengths.empty() ? result / lengths.back() * (lengths.back() / 2 + 1) : result;
  }
};

struct Plans {
  std::mutex mutex;
  std::map<int, std::unique_ptr<Plan>> by_handle;
  int last = 0;
};

Plans& plans() {
  static Plans* instance = new Plans;
  return *instance;
}

Plan* find(int handle) {
  std::lock_guard lock(plans().mutex);
  const auto found = plans().by_handle.find(handle);
  return found == plans().by_handle.end() ? nullptr : found->second.get();
}

// The longest signal that a thread block keeps in the 48 KiB of shared memory that every kernel may have:
// 4096 elements of two floats.
uint64_t elements_at_once(const Plan& plan) {
  constexpr uint64_t kSharedBytes = 48 << 10;
  return std::bit_floor(kSharedBytes / plan.complex_bytes);
}

uint64_t passes(const Plan& plan, uint64_t length) {
  uint64_t result = 1;
  for (uint64_t left = length; left > elements_at_once(plan); left /= elements_at_once(plan)) ++result;
  return result;
}

std::vector<LibraryKernel> kernels_of(const Plan& plan) {
  std::vector<LibraryKernel> result;
  const uint64_t elements = plan.elements();
  if (elements == 0) return result;
  const MatmulPrecision precision = plan.complex_bytes > 8 ? MatmulPrecision::kF64 : MatmulPrecision::kF32;
  for (const uint64_t length : plan.lengths) {
    const uint64_t count = passes(plan, length);
    // One multiplication stands for two flop; half precision computes in floats.
    const double multiplications = 2.5 * static_cast<double>(elements) *
                                   std::log2(static_cast<double>(length)) / static_cast<double>(count);
    const std::string name = std::string(count > 1 ? "regular_fft_factor<" : "vector_fft<") +
                             std::to_string(length) + "u, " +
                             (plan.complex_bytes == 16  ? "double2"
                              : plan.complex_bytes == 8 ? "float2"
                                                        : "__half2") +
                             ">";
    for (uint64_t i = 0; i < count; ++i)
      result.push_back(memory_kernel(name, 2 * elements * plan.complex_bytes,
                                     multiplications_ns(precision, multiplications)));
  }
  return result;
}

uint32_t bytes_of_complex(int type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_C_16F:
    case CUDA_R_16BF:
    case CUDA_C_16BF:
      return 4;
    case CUDA_R_32F:
    case CUDA_C_32F:
      return 8;
    case CUDA_R_64F:
    case CUDA_C_64F:
      return 16;
    default:
      return 0;
  }
}

bool is_real(int type) {
  return type == CUDA_R_16F || type == CUDA_R_16BF || type == CUDA_R_32F || type == CUDA_R_64F;
}

template <class Length>
int make(int handle, int rank, const Length* lengths, int64_t batch, bool real, uint32_t complex_bytes,
         size_t* work_bytes) {
  Plan* plan = find(handle);
  if (!plan) return kInvalidPlan;
  if (rank < 1 || rank > 3 || !lengths || batch < 1) return kInvalidValue;
  if (complex_bytes == 0) return kInvalidType;
  plan->lengths.clear();
  for (int i = 0; i < rank; ++i) {
    if (lengths[i] < 1) return kInvalidValue;
    plan->lengths.push_back(static_cast<uint64_t>(lengths[i]));
  }
  plan->batch = static_cast<uint64_t>(batch);
  plan->is_real = real;
  plan->complex_bytes = complex_bytes;
  // Between kernels the signal lies there.
  if (work_bytes) *work_bytes = kernels_of(*plan).size() > 1 ? plan->elements() * complex_bytes : 0;
  return kSuccess;
}

template <class Length>
int make_of_type(int handle, int rank, const Length* lengths, int64_t batch, int type, size_t* work_bytes) {
  const bool real = type == kR2C || type == kC2R || type == kD2Z || type == kZ2D;
  if (!real && type != kC2C && type != kZ2Z) return kInvalidType;
  return make(handle, rank, lengths, batch, real, (type & 0x40) ? 16 : 8, work_bytes);
}

int execute(int handle) {
  const Plan* plan = find(handle);
  if (!plan || plan->lengths.empty()) return kInvalidPlan;
  return launch_all_from_library(kernels_of(*plan), plan->stream) ? kSuccess : kExecFailed;
}

}  // namespace

GWSIM_EXPORT int cufftCreate(int* handle) {
  if (!handle) return kInvalidValue;
  std::lock_guard lock(plans().mutex);
  *handle = ++plans().last;
  plans().by_handle[*handle] = std::make_unique<Plan>();
  return kSuccess;
}
GWSIM_EXPORT int cufftDestroy(int handle) {
  std::lock_guard lock(plans().mutex);
  return plans().by_handle.erase(handle) ? kSuccess : kInvalidPlan;
}
GWSIM_EXPORT int cufftSetStream(int handle, void* stream) {
  Plan* plan = find(handle);
  if (!plan) return kInvalidPlan;
  plan->stream = stream;
  return kSuccess;
}
GWSIM_EXPORT int cufftSetAutoAllocation(int handle, int) {
  return find(handle) ? kSuccess : kInvalidPlan;
}
GWSIM_EXPORT int cufftSetWorkArea(int handle, void*) {
  return find(handle) ? kSuccess : kInvalidPlan;
}

GWSIM_EXPORT int cufftXtMakePlanMany(int handle, int rank, const long long* lengths, const long long*,
                                     long long, long long, int input, const long long*, long long, long long,
                                     int output, long long batch, size_t* work_bytes, int execution) {
  return make(handle, rank, lengths, batch, is_real(input) || is_real(output), bytes_of_complex(execution),
              work_bytes);
}
GWSIM_EXPORT int cufftXtExec(int handle, void*, void*, int) {
  return execute(handle);
}

GWSIM_EXPORT int cufftMakePlanMany(int handle, int rank, const int* lengths, const int*, int, int, const int*,
                                   int, int, int type, int batch, size_t* work_bytes) {
  return make_of_type(handle, rank, lengths, batch, type, work_bytes);
}
GWSIM_EXPORT int cufftPlanMany(int* handle, int rank, const int* lengths, const int*, int, int, const int*,
                               int, int, int type, int batch) {
  const int status = cufftCreate(handle);
  return status == kSuccess ? make_of_type(*handle, rank, lengths, batch, type, nullptr) : status;
}
GWSIM_EXPORT int cufftPlan1d(int* handle, int length, int type, int batch) {
  return cufftPlanMany(handle, 1, &length, nullptr, 1, 1, nullptr, 1, 1, type, batch);
}

#define GWSIM_EXECUTE(kind)                                         \
  GWSIM_EXPORT int cufftExec##kind(int handle, void*, void*, int) { \
    return execute(handle);                                         \
  }
GWSIM_EXECUTE(C2C)
GWSIM_EXECUTE(Z2Z)
GWSIM_EXECUTE(R2C)
GWSIM_EXECUTE(D2Z)
GWSIM_EXECUTE(C2R)
GWSIM_EXECUTE(Z2D)
