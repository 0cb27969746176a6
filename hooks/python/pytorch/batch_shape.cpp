// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/batch_shape.h"

#include <algorithm>

#include "hooks/python/pytorch/plain_objects.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr SsizeT kMostSamples = 256;  // some 50 us; the rest of a large batch is like them
constexpr SsizeT kMostFields = 8;

Name g_ndim("ndim"), g_numel("numel"), g_element_size("element_size"), g_size("size");

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
  return object && (is_exactly(object, types_.integer) || is_exactly(object, types_.real));
}

long SampleSizes::dimensions(PyObject* object) const noexcept {
  if (is_exactly(object, types_.tensor) || is_exactly(object, types_.array))
    return long_attribute(object, g_ndim, 0);
  const SsizeT count = is_exactly(object, types_.list) ? size(object) : 0;
  if (count <= 0) return 0;
  const Ref first = item(object, 0), last = item(object, count - 1);  // [1, a tensor] is no list of numbers
  return is_number(first.get()) && is_number(last.get()) ? 1 : 0;
}

long SampleSizes::elements(PyObject* object) const noexcept {
  if (is_exactly(object, types_.list)) return size(object);
  if (is_exactly(object, types_.array)) return long_attribute(object, g_size, -1);
  if (!is_exactly(object, types_.tensor)) return -1;
  return asked(object, g_numel, -1);
}

bool SampleSizes::choose_field(PyObject* sample) noexcept {
  field_.dimensions = dimensions(sample);
  if (field_.dimensions > 0) return true;
  const bool is_dict = is_exactly(sample, types_.dict);
  if (!is_dict && !is_exactly(sample, types_.tuple) && !is_exactly(sample, types_.list)) return false;
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
    Ref value(is_exactly(object, types_.dict) ? g_api.PyObject_GetItem(object, field_.key.get()) : nullptr);
    if (!value) g_api.PyErr_Clear();
    return value;
  }
  const bool has_elements =
      is_exactly(object, types_.tuple) || (is_exactly(object, types_.list) && dimensions(object) == 0);
  if (field_.index >= 0) return has_elements ? item(object, field_.index) : Ref();
  return Ref::of_borrowed(object);
}

SampleSizes::SampleSizes(PyObject* samples) noexcept {
  if (!samples) return;
  const ErrorGuard guard;
  find_types();
  if (!is_exactly(samples, types_.list) && !is_exactly(samples, types_.tuple)) return;
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
  Ref made = fields_of_batch(batch);
  const bool is_sample_whole = !field_.key && field_.index < 0;
  if (is_sample_whole && made && is_exactly(made.get(), types_.tuple))
    made = item(made.get(), 0);  // and lengths
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

class TensorCount {
 public:
  TensorCount() noexcept
      : list_(member("builtins", "list")),
        tuple_(member("builtins", "tuple")),
        dict_(member("builtins", "dict")),
        tensor_(member("torch", "Tensor")) {}

  void add(PyObject* object, int depth) noexcept {
    if (is_exactly(object, tensor_)) {
      ++tensors_;
      bytes_ += static_cast<uint64_t>(std::max(asked(object, g_numel, 0), 0L)) *
                static_cast<uint64_t>(std::max(asked(object, g_element_size, 0), 0L));
      return;
    }
    const Ref values(is_exactly(object, dict_) ? g_api.PyDict_Values(object) : nullptr);
    PyObject* const fields = is_exactly(object, dict_) ? values.get() : object;
    if (!fields || depth == 0 || (!values && !is_exactly(object, list_) && !is_exactly(object, tuple_)))
      return;
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
  const Ref made = fields_of_batch(batch);
  if (!made) return 0;
  constexpr int kDepth = 2;  // ((image, mask), label)
  TensorCount count;
  count.add(made.get(), kDepth);
  return count.packed();
}

}  // namespace gpuwatch::hooks::python
