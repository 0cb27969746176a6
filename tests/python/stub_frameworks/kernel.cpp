// SPDX-License-Identifier: Apache-2.0
// Stand-in for TensorFlow's kernel that asks an iterator, on a thread of its own, through the symbol table.
// With TRIVIAL its Status is returned in a register, else in memory, as TensorFlow's was and may be again.
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace tensorflow {
class Tensor {};
class OpKernelContext;
namespace data {
class DatasetBase;
struct Status {
#ifndef TRIVIAL
  ~Status() {
    rep = nullptr;
  }
#endif
  void* rep = nullptr;
};
class __attribute__((visibility("default"))) IteratorResource {
 public:
  Status GetNext(OpKernelContext* context, std::vector<Tensor>* out, bool* end_of_sequence);
  Status SetIteratorFromDataset(OpKernelContext* context, const DatasetBase* dataset);
  int left = 0;
  int ms = 0;
};
class __attribute__((visibility("default"))) ReduceDatasetOp {
 public:
  Status DoCompute(OpKernelContext* context);
};

#ifndef CALLER  // a library that calls what another one defines
__attribute__((noinline)) Status IteratorResource::GetNext(OpKernelContext* context, std::vector<Tensor>* out,
                                                           bool* end_of_sequence) {
  *end_of_sequence = left == 0 || context != nullptr || !out->empty();
  if (!*end_of_sequence) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    --left;
  }
  Status status;
  status.rep = reinterpret_cast<void*>(uintptr_t{7});  // handed back untouched
  return status;
}

__attribute__((noinline)) Status IteratorResource::SetIteratorFromDataset(OpKernelContext*,
                                                                          const DatasetBase*) {
  return Status();
}

__attribute__((noinline)) Status ReduceDatasetOp::DoCompute(OpKernelContext* context) {
  Status status;
  status.rep = context;
  return status;
}
#endif
}  // namespace data
}  // namespace tensorflow

using tensorflow::data::IteratorResource;

extern "C" void* make_iterator(int batches, int ms) {
  auto* iterator = new IteratorResource;
  iterator->left = batches;
  iterator->ms = ms;
  iterator->SetIteratorFromDataset(nullptr, nullptr);
  return iterator;
}

// 1: a batch, 0: the end, -1: arguments or result arrived changed.
extern "C" int ask(void* iterator) {
  int answer = -1;
  std::thread([&] {
    std::vector<tensorflow::Tensor> out;
    bool end_of_sequence = false;
    const auto status = static_cast<IteratorResource*>(iterator)->GetNext(nullptr, &out, &end_of_sequence);
    if (status.rep == reinterpret_cast<void*>(uintptr_t{7})) answer = !end_of_sequence;
  }).join();
  return answer;
}

// 1: the context came back as the result.
extern "C" int reduce(void* context) {
  tensorflow::data::ReduceDatasetOp kernel;
  return kernel.DoCompute(static_cast<tensorflow::OpKernelContext*>(context)).rep == context;
}
