// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/batch_mask.h"

#include <algorithm>
#include <cstring>

#include "hooks/python/pytorch/plain_objects.h"
#include "libinject/base/syscall.h"
#include "libinject/unwind/foreign_memory.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr SsizeT kMostFields = 8;
constexpr uint64_t kChunkBytes = 4096, kMostBytes = 16 * kChunkBytes;
constexpr long kLeastColumns = 8;  // fewer zeros and ones may be a label

Name g_ndim("ndim"), g_shape("shape"), g_dtype("dtype"), g_is_cpu("is_cpu"), g_is_contiguous("is_contiguous"),
    g_element_size("element_size"), g_data_ptr("data_ptr");

struct Mask {
  uint64_t address = 0;
  long rows = 0, columns = 0, element_bytes = 0;
  bool is_named = false;
  uint64_t row_bytes() const noexcept { return static_cast<uint64_t>(columns * element_bytes); }
};

// What a run of elements that were read says of the lengths of the samples.
class Lengths {
 public:
  explicit Lengths(const Mask& mask) noexcept : mask_(mask) {}

  // False: no mask.
  bool add(uint64_t element) noexcept {
    if (element > 1) return false;
    // Rows of zeros and then ones may be the segments of a pair of sentences.
    if (!mask_.is_named && element == 1 && own_ < column_) return false;
    own_ += element;
    if (++column_ < static_cast<uint64_t>(mask_.columns)) return true;
    if (own_ == 0 && !mask_.is_named) return false;
    elements_ += own_;
    longest_ = std::max(longest_, own_);
    ++rows_;
    own_ = column_ = 0;
    return true;
  }

  bool put(trace::ShapeDetail* shape) const noexcept {
    const auto columns = static_cast<uint64_t>(mask_.columns);
    if (elements_ == 0 || elements_ == rows_ * columns) return false;
    *shape = trace::ShapeDetail(elements_, columns * static_cast<uint64_t>(mask_.rows),
                                static_cast<uint32_t>(longest_), rows_);
    return true;
  }

 private:
  const Mask& mask_;
  uint64_t own_ = 0, column_ = 0, elements_ = 0, longest_ = 0;
  uint32_t rows_ = 0;
};

bool read(const Mask& mask, Lengths& lengths) noexcept {
  const uint64_t rows = std::min<uint64_t>(static_cast<uint64_t>(mask.rows), kMostBytes / mask.row_bytes());
  const auto bytes_each = static_cast<size_t>(mask.element_bytes);
  unwind::ForeignMemory memory(static_cast<uint32_t>(base::sys_getpid()));
  uint8_t chunk[kChunkBytes];
  const uint64_t end = mask.address + rows * mask.row_bytes();
  for (uint64_t at = mask.address; at < end; at += kChunkBytes) {
    const size_t bytes = std::min(kChunkBytes, end - at);
    if (!memory.read_all(&at, 1, chunk, bytes)) return false;
    for (size_t i = 0; i < bytes; i += bytes_each) {
      uint64_t element = 0;
      std::memcpy(&element, chunk + i, bytes_each);  // little endian
      if (!lengths.add(element)) return false;
    }
  }
  return true;
}

class MaskSearch {
 public:
  // False where the batch has no fields that can be asked.
  bool look_at(PyObject* fields) noexcept {
    const bool is_dict = is_exactly(fields, dict_);
    if (!is_dict && !is_exactly(fields, list_) && !is_exactly(fields, tuple_)) return false;
    const Ref keys(is_dict ? g_api.PyDict_Keys(fields) : nullptr);
    const Ref values(is_dict ? g_api.PyDict_Values(fields) : nullptr);
    if (is_dict && (!keys || !values)) return false;
    const SsizeT count = std::min(size(fields), kMostFields);
    for (SsizeT i = 0; i < count; ++i) {
      const Ref field = item(is_dict ? values.get() : fields, i);
      const Ref key = is_dict ? item(keys.get(), i) : Ref();
      const char* name = key ? text(key.get()) : nullptr;
      if (field) add(field.get(), name && std::strcmp(name, "attention_mask") == 0);
    }
    return true;
  }

  // The named one, else the first whose elements are lengths and that has a field of its size next to it.
  bool lengths(trace::ShapeDetail* shape, uint32_t* samples) const noexcept {
    const Mask* end = candidates_ + masks_;
    const Mask* named = std::find_if(candidates_, end, [](const Mask& mask) { return mask.is_named; });
    if (named != end) return put(*named, shape, samples);
    return std::any_of(candidates_, end,
                       [&](const Mask& mask) { return has_neighbor(mask) && put(mask, shape, samples); });
  }

 private:
  struct Size {
    long rows, columns;
  };

  void add(PyObject* tensor, bool is_named) noexcept {
    const long dimensions = is_exactly(tensor, tensor_) ? long_attribute(tensor, g_ndim, 0) : 0;
    const Ref shape = dimensions >= 2 ? attribute(tensor, g_shape) : Ref();
    if (!shape) return;
    const Ref rows = item(shape.get(), 0), columns = item(shape.get(), 1);
    if (!rows || !columns) return;
    sizes_[fields_++] = {to_long(rows.get(), 0), to_long(columns.get(), 0)};
    if (dimensions == 2) add_mask(tensor, sizes_[fields_ - 1], is_named);
  }

  void add_mask(PyObject* tensor, Size size, bool is_named) noexcept {
    if (size.rows < 1 || size.rows > UINT32_MAX || size.columns < (is_named ? 1 : kLeastColumns)) return;
    if (!is_whole(tensor) || long_attribute(tensor, g_is_cpu, 0) != 1 ||
        asked(tensor, g_is_contiguous, 0) != 1)
      return;
    const Mask mask{static_cast<uint64_t>(asked(tensor, g_data_ptr, 0)), size.rows, size.columns,
                    asked(tensor, g_element_size, 0), is_named};
    const bool is_read = mask.element_bytes == 1 || mask.element_bytes == 4 || mask.element_bytes == 8;
    if (mask.address != 0 && is_read && mask.columns < static_cast<long>(kMostBytes) &&
        mask.row_bytes() <= kMostBytes)
      candidates_[masks_++] = mask;
  }

  bool is_whole(PyObject* tensor) const noexcept {
    const Ref dtype = attribute(tensor, g_dtype);
    return std::ranges::any_of(whole_, [&](const Ref& type) { return type && dtype.get() == type.get(); });
  }

  bool has_neighbor(const Mask& mask) const noexcept {
    return std::count_if(sizes_, sizes_ + fields_, [&](const Size& size) {
             return size.rows == mask.rows && size.columns == mask.columns;
           }) > 1;
  }

  static bool put(const Mask& mask, trace::ShapeDetail* shape, uint32_t* samples) noexcept {
    Lengths lengths(mask);
    *samples = static_cast<uint32_t>(mask.rows);
    return read(mask, lengths) && lengths.put(shape);
  }

  const Ref list_ = member("builtins", "list"), tuple_ = member("builtins", "tuple"),
            dict_ = member("builtins", "dict"), tensor_ = member("torch", "Tensor");
  const Ref whole_[4] = {member("torch", "int64"), member("torch", "int32"), member("torch", "bool"),
                         member("torch", "uint8")};
  Size sizes_[kMostFields];
  Mask candidates_[kMostFields];
  uint32_t fields_ = 0, masks_ = 0;
};

}  // namespace

bool lengths_by_mask(PyObject* batch, trace::ShapeDetail* shape, uint32_t* samples) noexcept {
  const ErrorGuard guard;
  if (has_torch_function_mode()) return false;
  const Ref fields = fields_of_batch(batch);
  MaskSearch search;
  return fields && search.look_at(fields.get()) && search.lengths(shape, samples);
}

}  // namespace gpuwatch::hooks::python
