// SPDX-License-Identifier: Apache-2.0
// The backend API of the libcudnn stand-in, which cudnn-frontend drives: descriptors keep the attributes that
// are set, heuristics offer the engines of dnn.h, an execution launches one kernel. Pointers of a variant
// pack are not looked at. A descriptor belongs to one thread at a time; finished ones may be shared.
#include <algorithm>
#include <cstring>

#include "dnn.h"

using namespace gpuwatch::sim::dnn;

namespace gpuwatch::sim::dnn {

void Content::set(int attribute, int64_t value) {
  Value& entry = values[attribute];
  entry.count = 1;
  entry.bytes.assign(reinterpret_cast<char*>(&value), reinterpret_cast<char*>(&value) + sizeof value);
}

void Content::set(int attribute, std::vector<ContentRef> contents) {
  Value& entry = values[attribute];
  entry.count = static_cast<int64_t>(contents.size());
  entry.contents = std::move(contents);
}

const std::vector<ContentRef>& Content::contents(int attribute) const {
  static const std::vector<ContentRef> kNone;
  const auto found = values.find(attribute);
  return found == values.end() ? kNone : found->second.contents;
}

ContentRef Content::content(int attribute) const {
  const auto& all = contents(attribute);
  return all.empty() ? nullptr : all.front();
}

std::vector<int64_t> Content::numbers(int attribute) const {
  const auto found = values.find(attribute);
  if (found == values.end() || found->second.count <= 0) return {};
  const Value& value = found->second;
  const size_t size = value.bytes.size() / static_cast<size_t>(value.count);
  std::vector<int64_t> result(static_cast<size_t>(value.count), 0);
  for (size_t i = 0; i < result.size(); ++i) {  // little-endian, so a short element is the low part
    std::memcpy(&result[i], value.bytes.data() + i * size, std::min(size, sizeof(int64_t)));
  }
  return result;
}

int64_t Content::number(int attribute, int64_t otherwise) const {
  const std::vector<int64_t> all = numbers(attribute);
  return all.empty() ? otherwise : all.front();
}

}  // namespace gpuwatch::sim::dnn

// What a program holds.
struct BackendDescriptor {
  ContentRef content;
};

namespace {

// Of one element, by cudnnBackendAttributeType_t.
size_t size_of(int type) {
  switch (type) {
    case 2:   // CUDNN_TYPE_BOOLEAN
    case 24:  // CUDNN_TYPE_CHAR
      return 1;
    case 0:  // CUDNN_TYPE_HANDLE
    case 3:  // CUDNN_TYPE_INT64
    case 5:  // CUDNN_TYPE_DOUBLE
    case 6:  // CUDNN_TYPE_VOID_PTR
      return 8;
    case 26:  // CUDNN_TYPE_FRACTION
      return 16;
    default:  // the enumerations, CUDNN_TYPE_FLOAT and CUDNN_TYPE_INT32
      return 4;
  }
}

ContentRef made(int type) {
  auto content = std::make_shared<Content>();
  content->type = type;
  return content;
}

// Attributes that the library answers and the program does not set.
int derive(Content& content) {
  if (content.type == kOperationGraph) content.set(kGraphEngineCount, engine_count(content));
  if (content.type == kEngine) {
    const ContentRef graph = content.content(kEngineGraph);
    const int64_t index = content.number(kEngineIndex);
    if (!graph) return kBadParam;
    if (index < 0 || index >= engine_count(*graph)) return kNotSupported;
    for (const int empty : {kEngineKnobInfo, kEngineLayoutInfo, kEngineBehaviorNotes}) content.values[empty];
    Value& notes = content.values[kEngineNumericalNotes];
    if (engine_uses_tensor_cores(*graph, index)) {
      const int note = kNoteTensorCore;
      notes.count = 1;
      notes.bytes.assign(reinterpret_cast<const char*>(&note),
                         reinterpret_cast<const char*>(&note) + sizeof note);
    }
  }
  if (content.type == kEngineConfig) {
    if (!content.content(kConfigEngine)) return kBadParam;
    content.values[kConfigKnobChoices];
    content.set(kConfigWorkspace, 0);
    content.set(kConfigSharedMemory, 0);
  }
  if (content.type == kExecutionPlan) {
    if (!content.content(kPlanConfig)) return kBadParam;
    content.set(kPlanWorkspace, 0);
  }
  if (content.type == kEngineHeuristics) {
    const ContentRef graph = content.content(kHeuristicsGraph);
    if (!graph) return kBadParam;
    std::vector<ContentRef> configs;
    for (int index = 0; index < engine_count(*graph); ++index) {
      const ContentRef engine = made(kEngine), config = made(kEngineConfig);
      engine->set(kEngineGraph, {graph});
      engine->set(kEngineIndex, index);
      config->set(kConfigEngine, {engine});
      for (const ContentRef& made_here : {engine, config}) {
        derive(*made_here);
        made_here->finalized = true;
      }
      configs.push_back(config);
    }
    content.set(kHeuristicsResults, std::move(configs));
  }
  return kSuccess;
}

}  // namespace

GWSIM_EXPORT int cudnnBackendCreateDescriptor(int type, BackendDescriptor** descriptor) {
  if (!descriptor) return kBadParam;
  *descriptor = new BackendDescriptor{made(type)};
  return kSuccess;
}
GWSIM_EXPORT int cudnnBackendDestroyDescriptor(BackendDescriptor* descriptor) {
  delete descriptor;
  return kSuccess;
}

GWSIM_EXPORT int cudnnBackendSetAttribute(BackendDescriptor* descriptor, int attribute, int type,
                                          int64_t count, const void* elements) {
  if (!descriptor || descriptor->content->finalized || count < 0 || (count && !elements)) return kBadParam;
  Value value;
  value.count = count;
  if (type == kTypeDescriptor) {
    const auto* others = static_cast<BackendDescriptor* const*>(elements);
    for (int64_t i = 0; i < count; ++i) {
      if (!others[i]) return kBadParam;
      value.contents.push_back(others[i]->content);
    }
  } else {
    const char* bytes = static_cast<const char*>(elements);
    value.bytes.assign(bytes, bytes + static_cast<size_t>(count) * size_of(type));
  }
  descriptor->content->values[attribute] = std::move(value);
  return kSuccess;
}

GWSIM_EXPORT int cudnnBackendGetAttribute(const BackendDescriptor* descriptor, int attribute, int type,
                                          int64_t requested, int64_t* count, void* elements) {
  if (!descriptor) return kBadParam;
  const auto found = descriptor->content->values.find(attribute);
  if (found == descriptor->content->values.end()) return kNotSupported;
  const Value& value = found->second;
  if (count) *count = value.count;
  const int64_t n = elements ? std::min(requested, value.count) : 0;
  if (type == kTypeDescriptor) {
    auto* const* others = static_cast<BackendDescriptor**>(elements);
    for (int64_t i = 0; i < n; ++i) others[i]->content = value.contents[static_cast<size_t>(i)];
  } else if (n > 0) {
    std::memcpy(elements, value.bytes.data(),
                std::min(static_cast<size_t>(n) * size_of(type), value.bytes.size()));
  }
  return kSuccess;
}

GWSIM_EXPORT int cudnnBackendFinalize(BackendDescriptor* descriptor) {
  if (!descriptor) return kBadParam;
  const int status = derive(*descriptor->content);
  descriptor->content->finalized = status == kSuccess;
  return status;
}

GWSIM_EXPORT int cudnnBackendExecute(const Handle* handle, const BackendDescriptor* plan,
                                     const BackendDescriptor* variant_pack) {
  if (!plan || !variant_pack || plan->content->type != kExecutionPlan || !plan->content->finalized)
    return kBadParam;
  const ContentRef engine = plan->content->content(kPlanConfig)->content(kConfigEngine);
  return run_kernel(handle, kernel_of(*engine->content(kEngineGraph), engine->number(kEngineIndex)));
}
