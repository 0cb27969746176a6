// SPDX-License-Identifier: Apache-2.0
// Recurrent networks as kernels, in the order of cuDNN's standard algorithm: for each layer and direction one
// matmul for the input of all time steps, then for each time step a matmul of the state and a kernel for the
// gates; backwards the same from the last step on. The persistent algorithms run all time steps of a layer in
// one kernel, which saves the fixed part of each. cuDNN overlaps layers on streams of its own; not modelled,
// nor dropout between layers.
#pragma once

#include <vector>

#include "dnn.h"

namespace gpuwatch::sim::dnn {

enum RecurrentMode : int { kRecurrentRelu = 0, kRecurrentTanh = 1, kLstm = 2, kGru = 3 };

struct RecurrentNetwork {
  int mode = kLstm;
  int type = kFloat;
  bool tensor_cores = false;
  bool persistent = false;
  uint64_t input = 0, hidden = 0, projection = 0;  // elements of a vector; projection: of the state
  uint64_t layers = 0, directions = 1;

  uint64_t gates() const { return mode == kLstm ? 4 : mode == kGru ? 3 : 1; }
  bool has_projection() const { return projection != hidden; }
  uint64_t input_of(uint64_t layer) const { return layer == 0 ? input : projection * directions; }
};

enum class RecurrentPass : uint8_t { kForward, kGradientOfData, kGradientOfWeights };

// `sequences_at`: how many sequences of the batch still run at each time step.
std::vector<LibraryKernel> recurrent_kernels(const RecurrentNetwork& network,
                                             const std::vector<uint64_t>& sequences_at, RecurrentPass pass);

// Where the weights lie: layer by layer (a pseudo-layer is one direction of a layer), in each the matrices of
// the gates for the input, those for the state, the two biases of each gate, then the projection. `linear`
// counts the matrices, as cudnnGetRNNWeightParams does.
struct RecurrentWeight {
  uint64_t offset = 0, rows = 0, columns = 0;  // elements; no rows: there is none
};
RecurrentWeight recurrent_matrix(const RecurrentNetwork& network, uint64_t pseudo_layer, uint64_t linear);
RecurrentWeight recurrent_bias(const RecurrentNetwork& network, uint64_t pseudo_layer, uint64_t linear);
uint64_t recurrent_weights(const RecurrentNetwork& network);  // elements

}  // namespace gpuwatch::sim::dnn
