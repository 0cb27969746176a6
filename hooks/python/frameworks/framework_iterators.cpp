// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/framework_iterators.h"

#include <cstring>
#include <type_traits>

#include "hooks/python/frameworks/framework.h"
#include "hooks/python/frameworks/tf_stages.h"
#include "hooks/python/frameworks/versions.h"
#include "hooks/python/interpreter/location.h"
#include "hooks/python/interpreter/object.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

static_assert(std::has_unique_object_representations_v<trace::LoaderInfoFields>);  // compared by memcmp
constexpr size_t kKnown = 64;
constinit FrameworkLoader g_known[kKnown];
constinit size_t g_known_count = 0;

// The data that a Keras model trains on, for the iterators made below fit().
constinit char g_keras_data[128] = "";

FrameworkLoader* identify(trace::LoaderInfoFields fields, const PyObject* dataset) noexcept {
  const size_t count = g_known_count < kKnown ? g_known_count : kKnown;
  for (size_t i = 0; i < count; ++i) {
    fields.id = g_known[i].fields.id;
    if (g_known[i].dataset == dataset && std::memcmp(&g_known[i].fields, &fields, sizeof fields) == 0)
      return &g_known[i];
  }
  fields.id = record::new_id();
  record::put(fields);
  FrameworkLoader& known = g_known[g_known_count++ % kKnown];
  known = FrameworkLoader{dataset, fields, 0};
  return &known;
}

struct Pipeline {
  base::Text<512> names;  // from its end to its source: "Prefetch < Batch < Map (tf.py_function) < Range"
  base::Text<4096> locations;  // of each of them, a line each; empty where it is not known
  const char* code = nullptr;  // of the last stage, as data flows, in which Python runs
  int batch_size = -1;
};

// "_ParallelMapDataset" is a ParallelMap.
void add_name(base::Text<512>& names, const char* class_name) noexcept {
  if (*class_name == '_') ++class_name;
  const size_t length = std::strlen(class_name);
  const char* suffix = "Dataset";
  const size_t suffix_length = std::strlen(suffix);
  const bool has_suffix =
      length > suffix_length && std::strcmp(class_name + length - suffix_length, suffix) == 0;
  if (names.size() > 0) names.add(" < ");
  names.add(class_name, has_suffix ? length - suffix_length : length);
}

void add_stage(PyObject* dataset, Pipeline& pipeline) noexcept {
  add_name(pipeline.names, class_name(dataset).c_str());
  if (pipeline.batch_size < 0)
    pipeline.batch_size = static_cast<int>(long_attribute(dataset, "_batch_size", -1));
  const TfStage* stage = stage_of(dataset);
  if (stage) pipeline.locations.add(stage->location);
  if (!stage && has_forgotten_stages())
    record::lose(GW_INCOMPLETE "stages of tf.data pipelines lack their line: more than 256 were constructed",
                 1);
  pipeline.locations.add('\n');
  if (!stage || !stage->python[0]) return;
  pipeline.names.add(" (").add(stage->python).add(')');
  if (!pipeline.code && stage->code[0]) pipeline.code = stage->code;
}

// What feeds a stage; of several (zip), the first.
Ref input_of(PyObject* dataset) noexcept {
  Ref input = attribute(dataset, "_input_dataset");
  if (input) return input;
  const Ref several = attribute(dataset, "_datasets");
  return several ? item(several.get(), 0) : Ref();
}

void describe_pipeline(PyObject* dataset, Pipeline& pipeline) noexcept {
  constexpr int kMostStages = 16;
  Ref stage = Ref::of_borrowed(dataset);
  for (int i = 0; stage && !stage.is_none() && i < kMostStages; ++i) {
    add_stage(stage.get(), pipeline);
    stage = input_of(stage.get());
  }
  if (stage && !stage.is_none())
    record::lose(GW_INCOMPLETE "tf.data pipelines are described by their last 16 stages", 1);
}

int either(PyObject* object, const char* name, const char* other) noexcept {
  const long value = long_attribute(object, name, -1);
  return static_cast<int>(value >= 0 ? value : long_attribute(object, other, -1));
}

trace::LoaderInfoFields unknown_loader(const char* framework) noexcept {
  trace::LoaderInfoFields fields;
  fields.process = record::process_ordinal();
  fields.framework = record::intern(framework);
  fields.location = record::intern(users_location().c_str());
  fields.num_workers = fields.batch_size = fields.prefetch_factor = fields.batches = -1;
  fields.pin_memory = fields.persistent_workers = fields.in_order = fields.drop_last = -1;
  return fields;
}

}  // namespace

FrameworkLoader* describe_loader(const char* framework, PyObject* iterator, PyObject* dataset) noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  put_versions();
  const char* above = framework_on_stack();
  trace::LoaderInfoFields fields = unknown_loader(above ? above : framework);
  fields.class_name = record::intern(class_name(dataset ? dataset : iterator).c_str());
  if (dataset) {
    Pipeline pipeline;
    describe_pipeline(dataset, pipeline);
    fields.batch_size = pipeline.batch_size;
    fields.dataset = record::intern(pipeline.names.c_str());
    fields.stages = record::intern(pipeline.locations.c_str());
    if (pipeline.code) fields.code = record::intern(pipeline.code);
    if (above && std::strcmp(above, "keras") == 0 && *g_keras_data)
      fields.class_name = record::intern(g_keras_data);
  } else {
    fields.batch_size = either(iterator, "batch_size", "_batch_size");
    fields.prefetch_factor = either(iterator, "_prefetch_batches", "prefetch_batches");
  }
  return identify(fields, dataset);
}

uint32_t loader_in_graph() noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  put_versions();
  trace::LoaderInfoFields fields = unknown_loader("tf.data");
  fields.class_name = record::intern("tf.data iterator in a graph");
  return identify(fields, nullptr)->fields.id;
}

void note_keras_data(const char* words) noexcept {
  const size_t size = std::strlen(words);
  const size_t kept = size < sizeof g_keras_data ? size : sizeof g_keras_data - 1;
  std::memcpy(g_keras_data, words, kept);
  g_keras_data[kept] = 0;
}

// --- iterators -------------------------------------------------------------------------------------------

namespace {

constexpr uint32_t kIterators = 128;
constinit FrameworkIterator g_iterators[kIterators];
constinit uint32_t g_newest = 0;

}  // namespace

FrameworkIterator* find_iterator_over(const PyObject* object) noexcept {
  for (uint32_t i = 0; object && i < kIterators; ++i) {
    FrameworkIterator& iterator = g_iterators[(g_newest + kIterators - i) % kIterators];
    if (iterator.object == object) return &iterator;
  }
  return nullptr;
}

void forget_iterator(const PyObject* object) noexcept {
  if (FrameworkIterator* iterator = find_iterator_over(object)) iterator->object = nullptr;
}

FrameworkIterator& start_iterator(const PyObject* object) noexcept {
  FrameworkIterator* iterator = find_iterator_over(object);  // reused address
  if (!iterator) iterator = &g_iterators[g_newest = (g_newest + 1) % kIterators];
  iterator->object = object;
  iterator->resource.store(nullptr, std::memory_order_relaxed);
  iterator->loader.store(0, std::memory_order_relaxed);
  iterator->returned.store(0, std::memory_order_relaxed);
  iterator->waits.store(0, std::memory_order_relaxed);
  return *iterator;
}

FrameworkIterator* find_bound(const void* resource) noexcept {
  for (FrameworkIterator& iterator : g_iterators) {
    if (iterator.resource.load(std::memory_order_acquire) == resource) return &iterator;
  }
  return nullptr;
}

uint32_t number_of(const FrameworkIterator& iterator) noexcept {
  return static_cast<uint32_t>(&iterator - g_iterators) + 1;
}

FrameworkIterator* iterator_of_number(uint32_t number) noexcept {
  return number ? &g_iterators[(number - 1) % kIterators] : nullptr;
}

void unbind(const void* resource) noexcept {
  for (FrameworkIterator& other : g_iterators) {
    const void* expected = resource;
    other.resource.compare_exchange_strong(expected, nullptr, std::memory_order_relaxed);
  }
}

}  // namespace gpuwatch::hooks::python
