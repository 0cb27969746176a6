// SPDX-License-Identifier: Apache-2.0
// Every hooked function of every source as one enumeration, derived from the sources' .def tables: Op is the
// id in a record, kOperations gives name and class. To add a hook, add a row to its source's table; the
// interposer, the export, the id and the trace's Operation table follow.
#pragma once

#include <cstdint>

#include "libinject/trace/op_class.h"

namespace gpuwatch::hooks {

// What each row macro contributes here: GW_ROW(identifier, OpClass, "name").
#define GW_CUDART(name, variants, op_class, ...) GW_ROW(name, op_class, #name)
#define GW_CUDART_WORDS(name, variants, op_class) GW_ROW(name, op_class, #name)
// Pasted, because cuda.h makes macros of these names (cuMemAlloc is cuMemAlloc_v2 there).
#define GW_DRIVER(name, op_class) GW_ROW(driver_##name, op_class, #name)
#define GW_NCCL(name, params, args, op_class, ...) GW_ROW(name, op_class, #name)
#define GW_MPI(name, params, args, op_class) GW_ROW(name, op_class, #name)
#define GW_LIBC(ret, name, params, args, op_class, ...) GW_ROW(name, op_class, #name)
#define GW_PYTHON(identifier, op_class, name) GW_ROW(identifier, op_class, name)
#define GW_INJECTION(...)
#define GW_NVTX(...)
#define GW_NVTX_RANGE(identifier, op_class, name) GW_ROW(identifier, op_class, name)
#define GW_TENSORFLOW(identifier, op_class, name, symbol) GW_ROW(identifier, op_class, name)

// The order is not part of the format: each trace carries its own Operation tables.
enum class Op : uint16_t {
  kNone = 0,
#define GW_ROW(identifier, op_class, name) identifier,
#include "hooks/core/all_tables.def"
#undef GW_ROW
  kCount,
};

struct OperationInfo {
  const char* name;
  trace::OpClass op_class;
};

inline constexpr OperationInfo kOperations[] = {
    {"", trace::OpClass::Other},
#define GW_ROW(identifier, op_class, name) {name, trace::OpClass::op_class},
#include "hooks/core/all_tables.def"
#undef GW_ROW
};
static_assert(sizeof kOperations / sizeof kOperations[0] == static_cast<size_t>(Op::kCount));

#undef GW_CUDART
#undef GW_CUDART_WORDS
#undef GW_DRIVER
#undef GW_NCCL
#undef GW_MPI
#undef GW_LIBC
#undef GW_PYTHON
#undef GW_INJECTION
#undef GW_NVTX
#undef GW_NVTX_RANGE
#undef GW_TENSORFLOW

constexpr uint16_t id(Op op) noexcept {
  return static_cast<uint16_t>(op);
}

constexpr trace::OpClass class_of(Op op) noexcept {
  return kOperations[id(op)].op_class;
}

// A reader takes a record's detail for what its class says: each writer asserts this of what it writes.
template <class Detail>
constexpr bool carries(Op op) noexcept {
  return trace::detail_kind(class_of(op)) == trace::kKindOfDetail<Detail>;
}

}  // namespace gpuwatch::hooks
