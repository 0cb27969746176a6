// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/loader_info.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "hooks/python/frameworks/framework.h"
#include "hooks/python/interpreter/location.h"
#include "hooks/python/interpreter/object.h"
#include "hooks/python/pytorch/iterators.h"
#include "hooks/python/pytorch/sharding.h"
#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

// Loaders constructed lately and where. Forgotten ones are located by their iter() instead.
struct Construction {
  PyObject* loader = nullptr;
  const char* framework = nullptr;  // whose code constructed it; null: torch's or the user's
  const PyObject* dataset = nullptr;
  Location location;
};
constexpr size_t kConstructions = 32;
constinit Construction* g_constructions = nullptr;  // mapped on first use: most processes have no loader
constinit size_t g_next_construction = 0;

struct Known {
  PyObject* dataset = nullptr;
  PyObject* dataset_life = nullptr;  // our weak reference to it; null where its class allows none
  trace::LoaderInfoFields fields;    // id and instance among them
  Loader loader;
};
static_assert(std::has_unique_object_representations_v<trace::LoaderInfoFields>);  // compared by memcmp
constexpr size_t kKnown = 256;
constinit Known* g_known = nullptr;
constinit size_t g_known_count = 0;

template <class T>
T* map_array(size_t count) noexcept {
  return static_cast<T*>(
      base::sys_mmap(count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

const Construction* construction_of(PyObject* loader) noexcept {
  for (size_t i = 0; g_constructions && i < kConstructions; ++i) {
    if (g_constructions[i].loader == loader) return &g_constructions[i];
  }
  return nullptr;
}

// The line where the user set it up: Accelerate constructs its own loader over the dataset of the loader
// that it is given, and the Hugging Face Trainer one from the settings in its TrainingArguments.
Location site_of(const Construction* construction) noexcept {
  if (!construction) return users_location();
  for (size_t i = 0; construction->framework && i < kConstructions; ++i) {
    const Construction& other = g_constructions[i];
    if (other.loader && !other.framework && other.dataset == construction->dataset) return other.location;
  }
  const Location settings = settings_of(construction->framework);
  return settings.size() > 0 ? settings : construction->location;
}

// A framework that runs the loop, that made the loader, or whose class the loader is.
const char* framework_of(PyObject* loader, const Construction* construction) noexcept {
  if (const char* running = framework_on_stack()) return running;
  if (construction && construction->framework) return construction->framework;
  return framework_of_class(loader);
}

// A framework may iterate over a proxy, whose attribute is the loader that the user made.
struct Proxy {
  const char* class_name;
  const char* loader;
  const char* batch_size;
};
constexpr Proxy kProxies[] = {
#define GW_FRAMEWORK_PROXY(class_name, loader, batch_size) {class_name, loader, batch_size},
#include "libinject/trace/frameworks.def"
};

const Proxy* proxy_of(PyObject* loader) noexcept {
  const Label name = class_name(loader);
  for (const Proxy& proxy : kProxies) {
    if (std::strcmp(name.c_str(), proxy.class_name) == 0) return &proxy;
  }
  return nullptr;
}

uint32_t intern_class(PyObject* object) noexcept {
  return object && object != g_api.none ? record::intern(class_name(object).c_str()) : 0;
}

int batch_size_of(PyObject* loader) noexcept {
  const long own = long_attribute(loader, "batch_size", -1);
  if (own >= 0) return static_cast<int>(own);
  const Ref batch_sampler = attribute(loader, "batch_sampler");
  return batch_sampler ? static_cast<int>(long_attribute(batch_sampler.get(), "batch_size", -1)) : -1;
}

// The sampler that orders the samples; the batch sampler if the user wrote one.
Ref sampler_of(PyObject* loader) noexcept {
  Ref batch_sampler = attribute(loader, "batch_sampler");
  if (batch_sampler && !batch_sampler.is_none() && !class_is_from(batch_sampler.get(), "torch.utils.data")) {
    return batch_sampler;
  }
  return attribute(loader, "sampler");
}

long python_minor_version() noexcept {
  return std::strtol(g_api.Py_GetVersion() + 2, nullptr, 10);
}

uint32_t start_method_of(PyObject* loader) noexcept {
  Ref context = attribute(loader, "multiprocessing_context");
  if (!context || context.is_none()) context = Ref::of_borrowed(loaded_module("multiprocessing"));
  const Ref get = context ? attribute(context.get(), "get_start_method") : Ref();
  if (!get) return 0;
  // allow_none: asking without it fixes the default for the rest of the process.
  const Ref allow_none(g_api.PyLong_FromLong(1));
  Ref method(g_api.PyObject_CallFunctionObjArgs(get.get(), allow_none.get(), nullptr));
  if (!method) g_api.PyErr_Clear();
  if (const char* name = method && !method.is_none() ? text(method.get()) : nullptr)
    return record::intern(name);
  return record::intern(python_minor_version() < 14 ? "fork"
                                                    : "forkserver");  // Linux's default, not chosen yet
}

// len(loader) without running the user's __len__.
int batches_of(PyObject* loader, PyObject* dataset) noexcept {
  if (long_attribute(loader, "_dataset_kind", 1) != 0) return -1;  // iterable: its length is a guess
  const Ref index_sampler = attribute(loader, "_index_sampler");
  const Ref sampler = attribute(loader, "sampler");
  const bool is_torchs_own =
      dataset && index_sampler && sampler && class_is_from(index_sampler.get(), "torch.utils.data") &&
      class_is_from(sampler.get(), "torch.utils.data") &&
      (class_is_from(dataset, "torch.utils.data.dataset") || class_is_from(dataset, "builtins"));
  if (!is_torchs_own) return -1;
  const SsizeT size = g_api.PyObject_Size(index_sampler.get());
  if (size < 0) g_api.PyErr_Clear();
  return static_cast<int>(size);
}

// The dataset that the user wrote, inside those that torch wraps around it (random_split, ConcatDataset).
Ref innermost_dataset(PyObject* dataset) noexcept {
  constexpr int kMaxDepth = 8;
  Ref inner = Ref::of_borrowed(dataset);
  for (int depth = 0; depth < kMaxDepth && class_is_from(inner.get(), "torch.utils.data.dataset"); ++depth) {
    Ref wrapped = attribute(inner.get(), "dataset");
    if (!wrapped) {
      const Ref several = attribute(inner.get(), "datasets");
      if (several) wrapped = item(several.get(), 0);
    }
    if (!wrapped || wrapped.is_none()) break;
    inner = static_cast<Ref&&>(wrapped);
  }
  return inner;
}

// "file:line function" of the method that makes a sample; 0 where it is not written in Python.
uint32_t intern_code(PyObject* dataset, bool is_iterable) noexcept {
  if (!dataset) return 0;
  const Ref innermost = innermost_dataset(dataset);
  const Ref type(g_api.PyObject_Type(innermost.get()));
  const Ref method = type ? attribute(type.get(), is_iterable ? "__iter__" : "__getitem__") : Ref();
  const FunctionPlace place = place_of_function(method.get());
  return place.size() > 0 ? record::intern(place.c_str()) : 0;
}

trace::LoaderInfoFields describe(PyObject* loader, PyObject* dataset) noexcept {
  trace::LoaderInfoFields fields;
  fields.process = record::process_ordinal();
  const Construction* construction = construction_of(loader);
  const Location location = site_of(construction);
  fields.class_name = intern_class(loader);
  fields.dataset = intern_class(dataset);
  fields.location = record::intern(location.c_str());
  if (const char* framework = framework_of(loader, construction))
    fields.framework = record::intern(framework);
  fields.sampler = intern_class(sampler_of(loader).get());
  fields.num_workers = static_cast<int>(long_attribute(loader, "num_workers", -1));
  fields.batch_size = batch_size_of(loader);
  fields.prefetch_factor = -1;
  fields.start_method = start_method_of(loader);  // without workers: the one that they would be started by
  if (fields.num_workers > 0)
    fields.prefetch_factor = static_cast<int>(long_attribute(loader, "prefetch_factor", -1));
  fields.pin_memory = static_cast<int8_t>(truth_attribute(loader, "pin_memory", -1));
  fields.persistent_workers = static_cast<int8_t>(truth_attribute(loader, "persistent_workers", -1));
  fields.in_order = static_cast<int8_t>(truth_attribute(loader, "in_order", 1));  // always, before torch 2.6
  fields.drop_last = static_cast<int8_t>(truth_attribute(loader, "drop_last", -1));
  fields.batches = batches_of(loader, dataset);
  fields.code = intern_code(dataset, long_attribute(loader, "_dataset_kind", 0) == 1);
  fields.sharding = static_cast<uint32_t>(sharding_of(loader, dataset));
  const Proxy* proxy = proxy_of(loader);
  if (const Ref behind = proxy ? attribute(loader, proxy->loader) : Ref()) {
    const Ref its_dataset = attribute(behind.get(), "dataset");
    fields.class_name = intern_class(behind.get());
    fields.dataset = intern_class(its_dataset.get());
    fields.batch_size = static_cast<int>(long_attribute(behind.get(), proxy->batch_size, -1));
    fields.code = intern_code(its_dataset.get(), false);
  }
  return fields;
}

bool is_gone(const Known& known) noexcept {
  if (!known.dataset_life) return false;
  const Ref dataset(g_api.PyObject_CallFunctionObjArgs(known.dataset_life, nullptr));
  return dataset && dataset.is_none();
}

void set_dataset(Known& known, PyObject* dataset) noexcept {
  const Ref before(known.dataset_life);
  known.dataset = dataset;
  known.dataset_life = dataset ? g_api.PyWeakref_NewRef(dataset, nullptr) : nullptr;
  if (!known.dataset_life) g_api.PyErr_Clear();
}

// The loader with these settings that has no epoch under way: over this dataset, else over one that no
// longer exists (constructed for each epoch). Null if there is none; then `fields` says which instance a new
// one is.
Known* find_idle(trace::LoaderInfoFields& fields, PyObject* dataset) noexcept {
  const size_t count = g_known_count < kKnown ? g_known_count : kKnown;
  Known* abandoned = nullptr;
  uint32_t instances = 0;
  for (size_t i = 0; i < count; ++i) {
    Known& known = g_known[i];
    fields.id = known.fields.id;
    fields.instance = known.fields.instance;
    if (std::memcmp(&known.fields, &fields, sizeof fields) != 0) continue;
    const bool is_idle = !is_in_use(known.loader);
    if (known.dataset == dataset) {
      if (is_idle) return &known;
      ++instances;
    } else if (!abandoned && is_idle && is_gone(known)) {
      abandoned = &known;
    }
  }
  fields.instance = instances;
  if (instances == 0 && abandoned) set_dataset(*abandoned, dataset);
  return instances == 0 ? abandoned : nullptr;
}

Known* place_for_another() noexcept {
  for (size_t tries = 0; tries < kKnown; ++tries) {
    Known& known = g_known[g_known_count++ % kKnown];
    if (!is_in_use(known.loader)) return &known;
  }
  return nullptr;
}

}  // namespace

void remember_constructor(PyObject* loader) noexcept {
  if (!g_constructions) g_constructions = map_array<Construction>(kConstructions);
  if (!g_constructions) return;
  Construction* to = &g_constructions[g_next_construction];
  for (size_t i = 0; i < kConstructions; ++i) {
    if (g_constructions[i].loader == loader) to = &g_constructions[i];  // an address used again
  }
  if (to == &g_constructions[g_next_construction])
    g_next_construction = (g_next_construction + 1) % kConstructions;
  to->loader = loader;
  to->location = users_location();
  to->framework = framework_on_stack();
  const Ref dataset = attribute(loader, "dataset");  // compared by address only
  to->dataset = dataset.get();
}

Location place_of_loader(PyObject* loader) noexcept {
  return site_of(construction_of(loader));
}

Loader* identify(PyObject* loader) noexcept {
  if (!record::is_recording()) return nullptr;
  const record::Quiet quiet;
  const ErrorGuard guard;
  if (!g_known) g_known = map_array<Known>(kKnown);
  if (!g_known) return nullptr;
  const Ref dataset = attribute(loader, "dataset");
  trace::LoaderInfoFields fields = describe(loader, dataset.get());
  if (Known* known = find_idle(fields, dataset.get())) return &known->loader;
  Known* place = place_for_another();
  if (!place) return nullptr;
  fields.id = record::new_id();
  record::put(fields);
  set_dataset(*place, dataset.get());
  place->fields = fields;
  place->loader = Loader{fields.id, 0, fields.num_workers, fields.in_order != 0};
  return &place->loader;
}

}  // namespace gpuwatch::hooks::python
