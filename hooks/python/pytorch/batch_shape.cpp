// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/batch_shape.h"

#include <algorithm>

#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr SsizeT kMostSamples = 256;  // some 50 us; the rest of a large batch is like them
constexpr SsizeT kMostFields = 8;

Name g_ndim("ndim"), g_numel("numel"), g_element_size("element_size"), g_size("size");

Ref member(const char* module_name, const char* name) noexcept {
  PyObject* module = loaded_module(module_name);
  return module ? attribute(module, name) : Ref();
}

// Exactly of that type: a subclass may do anything when it is asked for its size.
bool is(PyObject* object, const Ref& type) noexcept {
  if (!type) return false;
  const Ref own(g_api.PyObject_Type(object));
  return own.get() == type.get();
}

// A mode (set_default_device, a tracer of the program's own) is shown each call on a tensor.
bool has_torch_function_mode() noexcept {
  PyObject* module = loaded_module("torch._C");
  const Ref count_modes = module ? attribute(module, "_len_torch_function_stack") : Ref();
  if (!count_modes) return false;
  const Ref count(g_api.PyObject_CallFunctionObjArgs(count_modes.get(), nullptr));
  if (!count) g_api.PyErr_Clear();
  return !count || to_long(count.get(), 1) != 0;
}

SsizeT size(PyObject* object) noexcept {
  const SsizeT size = g_api.PyObject_Size(object);
  if (size < 0) g_api.PyErr_Clear();
  return size;
}

}  // namespace

void SampleSizes::find_types() noexcept {
  types_.list = member("builtins", "list");
  types_.tuple = member("builtins", "tuple");
  types_.dict = member("builtins", "dict");
  types_.integer = member("builtins", "int");
  types_.real = member("builtins", "float");
  types_.array = member("numpy", "ndarray");
  if (!has_torch_function_mode()) types_.tensor = member("torch", "Tensor");
}

bool SampleSizes::is_number(PyObject* object) const noexcept {
  return object && (is(object, types_.integer) || is(object, types_.real));
}

long SampleSizes::dimensions(PyObject* object) const noexcept {
  if (is(object, types_.tensor) || is(object, types_.array)) return long_attribute(object, g_ndim, 0);
  const SsizeT count = is(object, types_.list) ? size(object) : 0;
  if (count <= 0) return 0;
  const Ref first = item(object, 0), last = item(object, count - 1);  // [1, a tensor] is no list of numbers
  return is_number(first.get()) && is_number(last.get()) ? 1 : 0;
}

long SampleSizes::elements(PyObject* object) const noexcept {
  if (is(object, types_.list)) return size(object);
  if (is(object, types_.array)) return long_attribute(object, g_size, -1);
  if (!is(object, types_.tensor)) return -1;
  const Ref numel = attribute(object, g_numel);
  const Ref count(numel ? g_api.PyObject_CallFunctionObjArgs(numel.get(), nullptr) : nullptr);
  if (!count) g_api.PyErr_Clear();
  return count ? to_long(count.get(), -1) : -1;
}

bool SampleSizes::choose_field(PyObject* sample) noexcept {
  field_.dimensions = dimensions(sample);
  if (field_.dimensions > 0) return true;
  const bool is_dict = is(sample, types_.dict);
  if (!is_dict && !is(sample, types_.tuple) && !is(sample, types_.list)) return false;
  const Ref keys(is_dict ? g_api.PyDict_Keys(sample) : nullptr);
  const SsizeT fields = std::min(size(sample), kMostFields);
  for (SsizeT i = 0; i < fields && (keys || !is_dict); ++i) {
    if (is_dict)
      field_.key = item(keys.get(), i);
    else
      field_.index = i;
    const Ref value = field_of(sample);
    field_.dimensions = value ? dimensions(value.get()) : 0;
    if (field_.dimensions > 0) return true;
  }
  return false;
}

Ref SampleSizes::field_of(PyObject* object) const noexcept {
  if (field_.key) {
    // Of a dict alone: its lookup calls nothing but the key's own comparison.
    Ref value(is(object, types_.dict) ? g_api.PyObject_GetItem(object, field_.key.get()) : nullptr);
    if (!value) g_api.PyErr_Clear();
    return value;
  }
  const bool has_elements = is(object, types_.tuple) || (is(object, types_.list) && dimensions(object) == 0);
  if (field_.index >= 0) return has_elements ? item(object, field_.index) : Ref();
  return Ref::of_borrowed(object);
}

SampleSizes::SampleSizes(PyObject* samples) noexcept {
  if (!samples) return;
  const ErrorGuard guard;
  find_types();
  if (!is(samples, types_.list) && !is(samples, types_.tuple)) return;
  const SsizeT count = size(samples);
  if (count < 2 || count > UINT32_MAX) return;
  {
    const Ref first = item(samples, 0);
    if (!first || !choose_field(first.get())) return;
  }
  const SsizeT looked_at = std::min(count, kMostSamples);
  for (SsizeT i = 0; i < looked_at; ++i) {
    const Ref sample = item(samples, i);
    const Ref field = sample ? field_of(sample.get()) : Ref();
    const long own = field ? elements(field.get()) : -1;
    if (own < 0) return;
    elements_ += static_cast<uint64_t>(own);
    longest_ = std::max(longest_, static_cast<uint64_t>(own));
  }
  samples_ = static_cast<uint32_t>(count);
  seen_ = static_cast<uint32_t>(looked_at);
}

bool SampleSizes::compare(PyObject* batch, trace::ShapeDetail* shape) const noexcept {
  const ErrorGuard guard;
  Ref made = Ref::of_borrowed(batch);
#define GW_FRAMEWORK_BATCH(module_prefix, name) \
  if (class_is_from(batch, module_prefix)) made = attribute(batch, name);
#include "libinject/trace/frameworks.def"
  const bool is_sample_whole = !field_.key && field_.index < 0;
  if (is_sample_whole && made && is(made.get(), types_.tuple)) made = item(made.get(), 0);  // and lengths
  const Ref field = made ? field_of(made.get()) : Ref();
  if (!field || dimensions(field.get()) != field_.dimensions + 1) return false;
  const long padded = elements(field.get());
  if (padded < 0) return false;
  const uint64_t longest = std::min<uint64_t>(longest_, UINT32_MAX);
  *shape =
      trace::ShapeDetail(elements_, static_cast<uint64_t>(padded), static_cast<uint32_t>(longest), seen_);
  return true;
}

namespace {

long asked(PyObject* object, Name& method) noexcept {
  const Ref bound = attribute(object, method);
  const Ref answer(bound ? g_api.PyObject_CallFunctionObjArgs(bound.get(), nullptr) : nullptr);
  if (!answer) g_api.PyErr_Clear();
  return answer ? to_long(answer.get(), 0) : 0;
}

class TensorCount {
 public:
  TensorCount() noexcept
      : list_(member("builtins", "list")),
        tuple_(member("builtins", "tuple")),
        dict_(member("builtins", "dict")),
        tensor_(member("torch", "Tensor")) {}

  void add(PyObject* object, int depth) noexcept {
    if (is(object, tensor_)) {
      ++tensors_;
      bytes_ += static_cast<uint64_t>(std::max(asked(object, g_numel), 0L)) *
                static_cast<uint64_t>(std::max(asked(object, g_element_size), 0L));
      return;
    }
    const Ref values(is(object, dict_) ? g_api.PyDict_Values(object) : nullptr);
    PyObject* const fields = is(object, dict_) ? values.get() : object;
    if (!fields || depth == 0 || (!values && !is(object, list_) && !is(object, tuple_))) return;
    const SsizeT count = std::min(size(fields), kMostTensors);
    for (SsizeT i = 0; i < count; ++i)
      if (const Ref field = item(fields, i)) add(field.get(), depth - 1);
  }

  uint32_t packed() const noexcept { return trace::batch_size(tensors_, bytes_); }

 private:
  static constexpr SsizeT kMostTensors = 64;  // some 20 us; a list of more is no collated batch
  Ref list_, tuple_, dict_, tensor_;
  uint32_t tensors_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace

uint32_t tensors_in(PyObject* batch) noexcept {
  const ErrorGuard guard;
  if (has_torch_function_mode()) return 0;
  Ref made = Ref::of_borrowed(batch);
#define GW_FRAMEWORK_BATCH(module_prefix, name) \
  if (class_is_from(batch, module_prefix)) made = attribute(batch, name);
#include "libinject/trace/frameworks.def"
  if (!made) return 0;
  constexpr int kDepth = 2;  // ((image, mask), label)
  TensorCount count;
  count.add(made.get(), kDepth);
  return count.packed();
}

}  // namespace gpuwatch::hooks::python
