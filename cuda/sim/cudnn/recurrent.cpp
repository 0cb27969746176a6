// SPDX-License-Identifier: Apache-2.0
#include "recurrent.h"

#include <numeric>

#include "core/config.h"

namespace gpuwatch::sim::dnn {

namespace {

// ---- weights

uint64_t weights_before(const RecurrentNetwork& n, uint64_t pseudo_layer) {
  uint64_t result = 0;
  for (uint64_t i = 0; i < pseudo_layer; ++i) {
    const uint64_t columns = n.input_of(i / n.directions) + n.projection + 2;  // and both biases
    result += n.gates() * n.hidden * columns + (n.has_projection() ? n.projection * n.hidden : 0);
  }
  return result;
}

uint64_t matrices_of(const RecurrentNetwork& n, uint64_t pseudo_layer) {
  return n.gates() * n.hidden * (n.input_of(pseudo_layer / n.directions) + n.projection);
}

// ---- kernels

const char* cell_name(int mode) {
  return mode == kLstm ? "LSTM" : mode == kGru ? "GRU" : "RNN";
}

class Kernels {
 public:
  Kernels(const RecurrentNetwork& network, const std::vector<uint64_t>& sequences_at)
      : n_(network),
        sequences_at_(sequences_at),
        vectors_(std::accumulate(sequences_at.begin(), sequences_at.end(), uint64_t{0})),
        bytes_(element_bytes(network.type)) {}

  std::vector<LibraryKernel> of(RecurrentPass pass) {
    for (uint64_t pseudo = 0; pseudo < n_.layers * n_.directions; ++pseudo) {
      const uint64_t layer =
          pass == RecurrentPass::kForward ? pseudo / n_.directions : n_.layers - 1 - pseudo / n_.directions;
      if (pass == RecurrentPass::kForward) forward(layer);
      if (pass == RecurrentPass::kGradientOfData) gradient_of_data(layer);
      if (pass == RecurrentPass::kGradientOfWeights) gradient_of_weights(layer);
    }
    return std::move(result_);
  }

 private:
  uint64_t rows() const { return n_.gates() * n_.hidden; }

  LibraryKernel matmul(uint64_t m, uint64_t columns, uint64_t k) const {
    Matmul mm;
    mm.m = m, mm.n = columns, mm.k = k;
    mm.precision = precision_of(n_.type, n_.tensor_cores);
    mm.result_bytes = static_cast<uint32_t>(bytes_);
    return matmul_kernel(mm);
  }

  // Forward: both matmuls' results in, gates (kept for the gradient) and state out. Backward: the same the
  // other way.
  LibraryKernel cells(uint64_t sequences, const char* direction) const {
    const uint64_t states = n_.mode == kLstm ? 4 : 2;  // cell and output, read and written
    const std::string name = std::string(cell_name(n_.mode)) + "_elementWise_" + direction + "<" +
                             type_name(n_.type) + ", " + type_name(n_.type) + ", float>";
    return memory_kernel(name, (3 * rows() + states * n_.hidden) * sequences * bytes_);
  }

  void forward(uint64_t layer) {
    result_.push_back(matmul(rows(), vectors_, n_.input_of(layer)));
    steps("fp", [&](uint64_t sequences, std::vector<LibraryKernel>& step) {
      step.push_back(matmul(rows(), sequences, n_.projection));
      step.push_back(cells(sequences, "fp"));
      if (n_.has_projection()) step.push_back(matmul(n_.projection, sequences, n_.hidden));
    });
  }

  void gradient_of_data(uint64_t layer) {
    steps("bp", [&](uint64_t sequences, std::vector<LibraryKernel>& step) {
      if (n_.has_projection()) step.push_back(matmul(n_.hidden, sequences, n_.projection));
      step.push_back(cells(sequences, "bp1"));
      step.push_back(matmul(n_.projection, sequences, rows()));
    });
    result_.push_back(matmul(n_.input_of(layer), vectors_, rows()));
  }

  void gradient_of_weights(uint64_t layer) {
    result_.push_back(matmul(rows(), n_.input_of(layer), vectors_));
    result_.push_back(matmul(rows(), n_.projection, vectors_));
    if (n_.has_projection()) result_.push_back(matmul(n_.projection, n_.hidden, vectors_));
    result_.push_back(memory_kernel(std::string(cell_name(n_.mode)) + "_bias_bp<" + type_name(n_.type) + ">",
                                    vectors_ * rows() * bytes_));
  }

  template <class AddStep>
  void steps(const char* direction, AddStep&& add_step) {
    std::vector<LibraryKernel> all;
    for (const uint64_t sequences : sequences_at_)
      if (sequences > 0) add_step(sequences, all);
    if (!n_.persistent || all.empty()) {
      result_.insert(result_.end(), all.begin(), all.end());
      return;
    }
    LibraryKernel one = all.front();  // of its shape
    one.name = std::string("RNN_blockPersist_") + direction + "_" + cell_name(n_.mode) + "<" +
               type_name(n_.type) + ">";
    one.duration_ns = config().default_kernel_ns;
    for (const LibraryKernel& kernel : all) {
      const bool is_matmul = kernel.name.starts_with("cutlass");
      one.duration_ns +=
          kernel.duration_ns - (is_matmul ? config().matmul_floor_ns : config().default_kernel_ns);
    }
    result_.push_back(std::move(one));
  }

  const RecurrentNetwork& n_;
  const std::vector<uint64_t>& sequences_at_;
  uint64_t vectors_;  // of the input, over all time steps
  size_t bytes_;      // of an element
  std::vector<LibraryKernel> result_;
};

}  // namespace

std::vector<LibraryKernel> recurrent_kernels(const RecurrentNetwork& network,
                                             const std::vector<uint64_t>& sequences_at, RecurrentPass pass) {
  return Kernels(network, sequences_at).of(pass);
}

RecurrentWeight recurrent_matrix(const RecurrentNetwork& n, uint64_t pseudo_layer, uint64_t linear) {
  const uint64_t gates = n.gates(), before = weights_before(n, pseudo_layer);
  const uint64_t input = n.input_of(pseudo_layer / n.directions);
  if (linear < gates) return {before + linear * n.hidden * input, n.hidden, input};
  if (linear < 2 * gates) {
    const uint64_t of_state = before + gates * n.hidden * input;
    return {of_state + (linear - gates) * n.hidden * n.projection, n.hidden, n.projection};
  }
  if (linear > 2 * gates || !n.has_projection()) return {};
  return {before + matrices_of(n, pseudo_layer) + 2 * gates * n.hidden, n.projection, n.hidden};
}

RecurrentWeight recurrent_bias(const RecurrentNetwork& n, uint64_t pseudo_layer, uint64_t linear) {
  if (linear >= 2 * n.gates()) return {};
  const uint64_t biases = weights_before(n, pseudo_layer) + matrices_of(n, pseudo_layer);
  return {biases + linear * n.hidden, n.hidden, 1};
}

uint64_t recurrent_weights(const RecurrentNetwork& n) {
  return weights_before(n, n.layers * n.directions);
}

}  // namespace gpuwatch::sim::dnn
