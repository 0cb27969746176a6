// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/kineto_names.h"

#include <iterator>

#include "libinject/trace/layout.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;
using trace::RecordKind;

struct Direction {
  std::string_view word;
  RecordKind kind;
  uint8_t direction;  // cudaMemcpyKind
};
constexpr Direction kDirections[] = {{"HtoD", RecordKind::CopyH2D, 1},
                                     {"DtoH", RecordKind::CopyD2H, 2},
                                     {"DtoD", RecordKind::CopyD2D, 3},
                                     {"HtoH", RecordKind::CopyOther, 0}};

struct Memory {
  std::string_view word;
  uint8_t code;  // as in trace::CallDetail
};
constexpr Memory kMemories[] = {{"Pageable", 1}, {"Pinned", 2}, {"Device", 3}, {"Managed", 4}};

uint8_t memory_of(std::string_view words) {
  for (const Memory& memory : kMemories)
    if (words.find(memory.word) != std::string_view::npos) return memory.code;
  return 0;
}

struct CudaWord {
  bool only_at_begin;
  std::string_view word;
  OpClass op_class;
};
constexpr bool begins = true, holds = false;
constexpr CudaWord kCudaWords[] = {
#define GW_CUDA_WORD(where, word, op_class) {where, word, OpClass::op_class},
#include "analyzer/model/kineto_calls.def"
#undef GW_CUDA_WORD
};

struct Mark {
  std::string_view begin;
  KinetoMark mark;
  OpClass op_class;
};
constexpr Mark kMarks[] = {{"ProfilerStep#", KinetoMark::kStep, OpClass::Other},
                           {"Optimizer.step#", KinetoMark::kOptimizerStep, OpClass::OptimizerStep},
                           {"enumerate(DataLoader)#", KinetoMark::kLoaderNext, OpClass::LoaderNext},
                           {"nccl:", KinetoMark::kCollective, OpClass::Collective}};

}  // namespace

KinetoCopy kineto_copy(std::string_view name) {
  KinetoCopy copy;
  for (const Direction& known : kDirections) {
    if (name.find(known.word) == std::string_view::npos) continue;
    copy.kind = known.kind;
    copy.direction = known.direction;
  }
  const size_t open = name.find('('), arrow = name.find("->");
  if (open == std::string_view::npos || arrow == std::string_view::npos || arrow < open) return copy;
  const uint8_t source = memory_of(name.substr(open, arrow - open)),
                destination = memory_of(name.substr(arrow));
  copy.memory = static_cast<uint8_t>(source << 4 | destination);
  if (source == 1) copy.flags |= trace::kSourcePageable;
  if (destination == 1) copy.flags |= trace::kDestinationPageable;
  return copy;
}

bool is_hip_call(std::string_view name) {
  return name.starts_with("hip");
}

bool counts_threads(std::string_view launch) {
  return launch.starts_with("hipExtModuleLaunch") || launch.starts_with("hipHccModuleLaunch");
}

OpClass cuda_call_class(std::string_view name) {
  while (name.starts_with('_')) name.remove_prefix(1);
  if (is_hip_call(name))
    name.remove_prefix(3);
  else if (name.starts_with("cu"))
    name.remove_prefix(name.starts_with("cuda") ? 4 : 2);
  else
    return OpClass::Other;
  for (const CudaWord& known : kCudaWords) {
    const size_t at = name.find(known.word);
    if (at != std::string_view::npos && (at == 0 || !known.only_at_begin)) return known.op_class;
  }
  return OpClass::Other;
}

KinetoMark kineto_mark(std::string_view name) {
  for (const Mark& known : kMarks)
    if (name.starts_with(known.begin)) return known.mark;
  return KinetoMark::kOther;
}

OpClass class_of_mark(KinetoMark mark) {
  for (const Mark& known : kMarks)
    if (known.mark == mark) return known.op_class;
  return OpClass::Other;
}

Loader described_loader(uint32_t id, std::string_view name) {
  Loader loader;
  loader.id = id;
  loader.class_name = "DataLoader";
  if (name.find("_SingleProcessDataLoaderIter") != std::string_view::npos) loader.num_workers = 0;
  return loader;
}

}  // namespace gpuwatch::model
