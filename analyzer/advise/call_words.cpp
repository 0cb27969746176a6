// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/call_words.h"

#include <fmt/format.h>

#include <string_view>

#include "analyzer/advise/remedy_words.h"

namespace gpuwatch::advise {
namespace {

struct Words {
  std::string_view begin;  // of the function's name
  std::string_view torch;
};
constexpr Words kWords[] = {
    {"cudaMemset", "model.zero_grad() or torch.zeros"},
    {"cudaStreamSynchronize", ".item(), .cpu() or print of a tensor"},
    {"cudaDeviceSynchronize", "torch.cuda.synchronize()"},
    {"cudaEventSynchronize", "torch.cuda.Event.synchronize()"},
    {"cudaMemcpy", ".to(), .cpu() or .copy_()"},
    {"cudaMalloc", "PyTorch's memory pool growing"},
    {"cudaFree", "PyTorch's memory pool shrinking, as by torch.cuda.empty_cache()"},
    {"cudaGraphLaunch", "a CUDA graph's replay"},
    {"cudaHostAlloc", "pinning memory"},
    {"cudaHostRegister", "pinning memory"},
};

}  // namespace

std::string call_words(const model::Process& process, const std::string& function) {
  if (!speaks_torch(process)) return function;
  for (const Words& words : kWords)
    if (function.starts_with(words.begin)) return fmt::format("{} ({})", words.torch, function);
  return function;
}

}  // namespace gpuwatch::advise
