// SPDX-License-Identifier: Apache-2.0
// The recurrent layers of the libcudnn stand-in (version 8 of that API, the one of cuDNN 9): descriptors,
// where weights lie, and each pass as the kernels of recurrent.h. Biases are always there.
#include <algorithm>
#include <numeric>

#include "core/config.h"
#include "recurrent.h"

using namespace gpuwatch::sim;
using namespace gpuwatch::sim::dnn;

namespace {

enum MathType : int { kFmaMath = 3 };

struct DropoutDescriptor {};

struct RecurrentData {
  std::vector<uint64_t> sequences_at;  // by time step

  uint64_t vectors() const { return std::accumulate(sequences_at.begin(), sequences_at.end(), uint64_t{0}); }
};

// A generator of random numbers for each thread that the device can run at once.
size_t dropout_state_bytes() {
  constexpr size_t kStateBytes = 48, kThreads = 2048;  // curandStateXORWOW_t; of a multiprocessor
  return kStateBytes * kThreads * static_cast<size_t>(config().multiprocessors);
}

void describe(const RecurrentWeight& weight, int type, const void* space, TensorDescriptor* descriptor,
              void** address) {
  if (address)
    *address = weight.rows == 0
                   ? nullptr
                   : const_cast<char*>(static_cast<const char*>(space)) + weight.offset * element_bytes(type);
  if (!descriptor) return;
  const int rows = static_cast<int>(weight.rows), columns = static_cast<int>(weight.columns);
  *descriptor = {type, {1, rows, columns}, {rows * columns, columns, 1}};
}

int run(const Handle* handle, const RecurrentNetwork* network, const RecurrentData* data,
        RecurrentPass pass) {
  if (!network || !data) return kBadParam;
  return run_kernels(handle, recurrent_kernels(*network, data->sequences_at, pass));
}

}  // namespace

GWSIM_EXPORT int cudnnCreateDropoutDescriptor(DropoutDescriptor** descriptor) {
  if (!descriptor) return kBadParam;
  *descriptor = new DropoutDescriptor;
  return kSuccess;
}
GWSIM_EXPORT int cudnnDestroyDropoutDescriptor(DropoutDescriptor* descriptor) {
  delete descriptor;
  return kSuccess;
}
GWSIM_EXPORT int cudnnDropoutGetStatesSize(Handle*, size_t* bytes) {
  if (!bytes) return kBadParam;
  *bytes = dropout_state_bytes();
  return kSuccess;
}
// Without memory for the states there is no dropout.
GWSIM_EXPORT int cudnnSetDropoutDescriptor(DropoutDescriptor*, const Handle* handle, float, void* states,
                                           size_t bytes, unsigned long long) {
  if (!states) return kSuccess;
  return run_kernel(handle, memory_kernel("cudnn::init_rng_states", bytes));
}
GWSIM_EXPORT int cudnnRestoreDropoutDescriptor(DropoutDescriptor*, const Handle*, float, void*, size_t,
                                               unsigned long long) {
  return kSuccess;
}

GWSIM_EXPORT int cudnnCreateRNNDescriptor(RecurrentNetwork** network) {
  if (!network) return kBadParam;
  *network = new RecurrentNetwork;
  return kSuccess;
}
GWSIM_EXPORT int cudnnDestroyRNNDescriptor(RecurrentNetwork* network) {
  delete network;
  return kSuccess;
}
GWSIM_EXPORT int cudnnSetRNNDescriptor_v8(RecurrentNetwork* network, int algorithm, int mode, int,
                                          int direction, int, int type, int, int math, int32_t input,
                                          int32_t hidden, int32_t projection, int32_t layers,
                                          DropoutDescriptor*, uint32_t) {
  if (!network || mode < kRecurrentRelu || mode > kGru || input < 1 || hidden < 1 || projection < 1 ||
      layers < 1)
    return kBadParam;
  *network = {.mode = mode,
              .type = type,
              .tensor_cores = math != kFmaMath && has_tensor_cores(type),
              .persistent = algorithm != 0,
              .input = static_cast<uint64_t>(input),
              .hidden = static_cast<uint64_t>(hidden),
              .projection = static_cast<uint64_t>(projection),
              .layers = static_cast<uint64_t>(layers),
              .directions = direction ? 2u : 1u};
  return kSuccess;
}

GWSIM_EXPORT int cudnnCreateRNNDataDescriptor(RecurrentData** data) {
  if (!data) return kBadParam;
  *data = new RecurrentData;
  return kSuccess;
}
GWSIM_EXPORT int cudnnDestroyRNNDataDescriptor(RecurrentData* data) {
  delete data;
  return kSuccess;
}
GWSIM_EXPORT int cudnnSetRNNDataDescriptor(RecurrentData* data, int, int, int steps, int sequences, int,
                                           const int* lengths, void*) {
  if (!data || !lengths || steps < 1 || sequences < 1) return kBadParam;
  data->sequences_at.assign(static_cast<size_t>(steps), 0);
  for (int i = 0; i < sequences; ++i)
    for (int step = 0; step < std::min(lengths[i], steps); ++step)
      ++data->sequences_at[static_cast<size_t>(step)];
  return kSuccess;
}

GWSIM_EXPORT int cudnnGetRNNWeightSpaceSize(Handle*, const RecurrentNetwork* network, size_t* bytes) {
  if (!network || !bytes) return kBadParam;
  *bytes = recurrent_weights(*network) * element_bytes(network->type);
  return kSuccess;
}
GWSIM_EXPORT int cudnnGetRNNWeightParams(Handle*, const RecurrentNetwork* network, int32_t pseudo_layer,
                                         size_t, const void* space, int32_t linear, TensorDescriptor* matrix,
                                         void** matrix_at, TensorDescriptor* bias, void** bias_at) {
  if (!network || pseudo_layer < 0 || linear < 0) return kBadParam;
  const auto layer = static_cast<uint64_t>(pseudo_layer), id = static_cast<uint64_t>(linear);
  if (layer >= network->layers * network->directions) return kBadParam;
  describe(recurrent_matrix(*network, layer, id), network->type, space, matrix, matrix_at);
  describe(recurrent_bias(*network, layer, id), network->type, space, bias, bias_at);
  return kSuccess;
}
// Kept for the gradient are the gates and states of all time steps.
GWSIM_EXPORT int cudnnGetRNNTempSpaceSizes(Handle*, const RecurrentNetwork* network, int,
                                           const RecurrentData* data, size_t* work_bytes,
                                           size_t* reserve_bytes) {
  if (!network || !data) return kBadParam;
  const uint64_t of_layer =
      data->vectors() * (network->gates() + 2) * network->hidden * element_bytes(network->type);
  if (work_bytes) *work_bytes = of_layer * network->directions;
  if (reserve_bytes) *reserve_bytes = of_layer * network->directions * network->layers;
  return kSuccess;
}

// Of these calls' many arguments only those up to the input's descriptor count, and the caller clears the
// rest.
GWSIM_EXPORT int cudnnRNNForward(Handle* handle, const RecurrentNetwork* network, int, const int32_t*,
                                 const RecurrentData* x) {
  return run(handle, network, x, RecurrentPass::kForward);
}
GWSIM_EXPORT int cudnnRNNBackwardData_v8(Handle* handle, const RecurrentNetwork* network, const int32_t*,
                                         const RecurrentData* y) {
  return run(handle, network, y, RecurrentPass::kGradientOfData);
}
GWSIM_EXPORT int cudnnRNNBackwardWeights_v8(Handle* handle, const RecurrentNetwork* network, int,
                                            const int32_t*, const RecurrentData* x) {
  return run(handle, network, x, RecurrentPass::kGradientOfWeights);
}
