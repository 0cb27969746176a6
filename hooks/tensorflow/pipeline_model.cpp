// SPDX-License-Identifier: Apache-2.0
// The calling convention is that of tensorflow.cpp. Two functions are stood in front of: AddNode, which gives
// the model its first node (an iterator without a parent), and RecordIteratorGapTime, which that iterator
// calls with its model between two batches: there both are alive. A model's address may be used again, by one
// whose first node is then noted in its place.
#include "hooks/tensorflow/pipeline_model.h"

#include <algorithm>
#include <atomic>

#include "hooks/python/frameworks/framework_iterators.h"
#include "hooks/tensorflow/pipeline_text.h"
#include "hooks/tensorflow/tensorflow_function.h"
#include "libinject/base/clock.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::tensorflow {

GW_TLS const void* t_asked_resource = nullptr;

namespace {

constexpr uint64_t kFirstNs = 250'000'000;
constexpr uint64_t kSpacing = 8;  // the next reading is after so much of the time so far
constexpr size_t kMostStages = 32;

struct Model {
  std::atomic<uintptr_t> address;
  std::atomic<uintptr_t> first_node;
  std::atomic<uint64_t> since_ticks;
  std::atomic<uint64_t> next_ticks;
};
constexpr size_t kModels = 64;
constinit Model g_models[kModels]{};
constinit std::atomic<size_t> g_noted{0};
constinit std::atomic<uint64_t> g_first_ticks{0};
constinit std::atomic<uint64_t> g_next_model_ticks{0};

Model* find_model(uintptr_t address) noexcept {
  for (Model& model : g_models)
    if (model.address.load(std::memory_order_acquire) == address) return &model;
  return nullptr;
}

// Each epoch may have an iterator, and each iterator a model: after an hour of them the next one that is read
// is minutes away.
bool is_model_due(uint64_t now) noexcept {
  uint64_t first = 0;
  if (g_first_ticks.compare_exchange_strong(first, now, std::memory_order_relaxed)) first = now;
  if (now < g_next_model_ticks.load(std::memory_order_relaxed)) return false;
  g_next_model_ticks.store(now + (now - first) / kSpacing, std::memory_order_relaxed);
  return true;
}

void note_model(uintptr_t address, uintptr_t first_node) noexcept {
  Model* model = find_model(address);
  if (!model) model = &g_models[g_noted.fetch_add(1, std::memory_order_relaxed) % kModels];
  model->address.store(0, std::memory_order_relaxed);  // not to be read while its fields change
  model->first_node.store(first_node, std::memory_order_relaxed);
  const uint64_t now = base::ticks();
  model->since_ticks.store(now, std::memory_order_relaxed);
  model->next_ticks.store(is_model_due(now) ? now + base::ticks_of_ns(kFirstNs) : UINT64_MAX,
                          std::memory_order_relaxed);
  model->address.store(address, std::memory_order_release);
}

// True on one thread, once for each reading.
bool is_due(Model& model, uint64_t now) noexcept {
  uint64_t next = model.next_ticks.load(std::memory_order_relaxed);
  if (GW_LIKELY(now < next)) return false;
  const uint64_t after = now + (now - model.since_ticks.load(std::memory_order_relaxed)) / kSpacing;
  return model.next_ticks.compare_exchange_strong(next, after, std::memory_order_relaxed);
}

// std::string as libstdc++ lays it out, which is what "B5cxx11" in the function's name stands for.
struct String {
  char* data;
  size_t length;
  char local[16];
};
using DebugString = void (*)(String* result, uintptr_t node);
using Delete = void (*)(void*);

constinit runtime::RealFunction<DebugString> g_debug_string(
    "_ZNK10tensorflow4data5model4Node11DebugStringB5cxx11Ev");
constinit runtime::RealFunction<Delete> g_delete("_ZdlPv");

void put_stages(const StageCounts* stages, size_t count, uint64_t now, uint32_t loader) noexcept {
  for (size_t i = 0; i < count; ++i) {
    trace::PipelineStageFields fields;
    fields.process = record::process_ordinal();
    fields.ticks = now;
    fields.loader = loader;
    fields.stage = static_cast<uint32_t>(i);
    fields.feeds = stages[i].feeds;
    fields.name = record::intern(stages[i].name);
    fields.elements = stages[i].elements;
    fields.bytes_produced = stages[i].bytes_produced;
    fields.bytes_consumed =
        stages[i].bytes_consumed - std::min(stages[i].bytes_consumed, stages[i].bytes_held);
    fields.processing_ns = stages[i].processing_ns;
    record::put(fields);
  }
}

// May throw, as the function that it calls may.
GW_COLD void read_model(const Model& model, uint64_t now, uint32_t loader, const void* caller) {
  const DebugString debug_string = g_debug_string.get(caller, nullptr);
  const Delete free_string = g_delete.get(caller, nullptr);
  if (!debug_string || !free_string) return;
  const record::Quiet quiet;
  String text;
  debug_string(&text, model.first_node.load(std::memory_order_relaxed));
  StageCounts stages[kMostStages];
  const Pipeline pipeline = read_pipeline(text.data, text.length, stages, kMostStages);
  put_stages(stages, pipeline.stages, now, loader);
  if (!pipeline.is_whole)
    record::lose(
        GW_INCOMPLETE "readings of a tf.data pipeline lack stages: it has more than 32, or 256 nodes", 1);
  if (text.data != text.local) free_string(text.data);
}

// The loader whose batch this thread is asking for; 0: none.
uint32_t asked_loader() noexcept {
  const python::FrameworkIterator* iterator =
      t_asked_resource ? python::find_bound(t_asked_resource) : nullptr;
  return iterator ? iterator->loader.load(std::memory_order_acquire) : 0;
}

}  // namespace

}  // namespace gpuwatch::hooks::tensorflow

using namespace gpuwatch;
using namespace gpuwatch::hooks::tensorflow;

// void Model::AddNode(Node::Factory factory, const string& name, shared_ptr<Node> parent, shared_ptr<Node>*
// out)
extern "C" GW_EXPORT uintptr_t
gw_tensorflow_add_node(uintptr_t model, uintptr_t factory, uintptr_t name, uintptr_t parent, uintptr_t out, uintptr_t f) noexcept(false) __asm__(
    "_ZN10tensorflow4data5model5Model7AddNodeESt8functionIFSt10shared_ptrINS1_4NodeEENS5_4ArgsEEERKNSt7__"
    "cxx1112basic_stringIcSt11char_traitsIcESaIcEEES6_PS6_");
extern "C" GW_EXPORT uintptr_t gw_tensorflow_add_node(uintptr_t model, uintptr_t factory, uintptr_t name,
                                                      uintptr_t parent, uintptr_t out,
                                                      uintptr_t f) noexcept(false) {
  const SixWords real = g_tensorflow_add_node.get(__builtin_return_address(0), gw_tensorflow_add_node);
  const bool is_first =
      *reinterpret_cast<const uintptr_t*>(parent) == 0;  // a shared_ptr begins with the pointer
  const uintptr_t result = real(model, factory, name, parent, out, f);
  // Ticks of before are of another clock.
  if (is_first && record::is_recording()) note_model(model, *reinterpret_cast<const uintptr_t*>(out));
  return result;
}

// void Model::RecordIteratorGapTime(uint64_t duration_usec)
extern "C" GW_EXPORT uintptr_t gw_tensorflow_iterator_gap(
    uintptr_t model, uintptr_t gap, uintptr_t c, uintptr_t d, uintptr_t e,
    uintptr_t f) noexcept(false) __asm__("_ZN10tensorflow4data5model5Model21RecordIteratorGapTimeEm");
extern "C" GW_EXPORT uintptr_t gw_tensorflow_iterator_gap(uintptr_t model, uintptr_t gap, uintptr_t c,
                                                          uintptr_t d, uintptr_t e,
                                                          uintptr_t f) noexcept(false) {
  const void* const caller = __builtin_return_address(0);
  const SixWords real = g_tensorflow_iterator_gap.get(caller, gw_tensorflow_iterator_gap);
  Model* known = record::is_recording() ? find_model(model) : nullptr;
  if (known) {
    const uint64_t now = base::ticks();
    if (is_due(*known, now))
      if (const uint32_t loader = asked_loader()) read_model(*known, now, loader, caller);
  }
  return real(model, gap, c, d, e, f);
}
