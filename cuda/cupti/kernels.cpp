// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/kernels.h"

#include <atomic>
#include <cstring>

#include "cuda/cupti/id_table.h"
#include "libinject/base/compiler.h"
#include "libinject/base/futex_lock.h"
#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::cuda::cupti {
namespace {

constexpr size_t kMaxNameBytes = 4000;  // what the trace keeps of a text

struct Name {
  std::atomic<uint32_t> without_shape{
      0};  // id of its KernelInfo for all further shapes, 0: none is needed yet
  uint32_t shapes = 0;
};

// In .bss: pages that are never touched cost nothing.
using Table = IdTable<16384>;
constinit Table g_shaped;      // by name and shape: id of the KernelInfo
constinit Table g_name_index;  // by name: index into g_names
constinit Name g_names[Table::kMost];
constinit base::FutexLock g_lock;

// The text itself, not its address: a module that is unloaded (a recompiled Triton kernel) leaves its address
// to another name. 200 bytes take about 30 ns.
uint64_t hash_of(const char* text, size_t bytes) noexcept {
  uint64_t hash = bytes;
  for (; bytes >= 8; text += 8, bytes -= 8) {
    uint64_t word;
    __builtin_memcpy(&word, text, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
  }
  uint64_t rest = 0;
  __builtin_memcpy(&rest, text, bytes);
  return mix(hash ^ rest);
}

uint64_t hash_of(uint64_t name, const KernelShape& shape) noexcept {
  const auto pair = [](uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; };
  uint64_t hash = mix(name ^ pair(shape.grid[0], shape.grid[1]));
  hash = mix(hash ^ pair(shape.grid[2], shape.block[0]));
  hash = mix(hash ^ pair(shape.block[1], shape.block[2]));
  return mix(hash ^ pair(shape.shared_bytes, shape.registers));
}

uint32_t put(const char* name, size_t bytes, const KernelShape& shape) noexcept {
  trace::KernelInfoFields fields;
  fields.id = record::new_id();
  fields.name = record::intern(name, bytes);
  fields.grid_x = shape.grid[0];
  fields.grid_y = shape.grid[1];
  fields.grid_z = shape.grid[2];
  fields.block_x = shape.block[0];
  fields.block_y = shape.block[1];
  fields.block_z = shape.block[2];
  fields.shared_bytes = shape.shared_bytes;
  fields.registers = shape.registers;
  record::put(fields);
  return fields.id;
}

// Null past the bound of names. Lock held.
Name* name_of(uint64_t key) noexcept {
  uint32_t index = g_name_index.find(key);
  if (index == Table::kNotFound) {
    if (g_name_index.is_full()) return nullptr;
    index = static_cast<uint32_t>(g_name_index.count());
    g_name_index.add(key, index);
  }
  return &g_names[index];
}

// A kernel may not have more shapes than are left for all others: one with dynamic shapes takes half of the
// table, and a kernel that is launched for the first time hours later still gets one.
bool gets_another_shape(const Name& name) noexcept {
  return name.shapes < Table::kMost - g_shaped.count();
}

GW_COLD uint32_t add_kernel(uint64_t name_key, uint64_t key, const char* text, size_t bytes,
                            const KernelShape& shape) noexcept {
  const base::FutexGuard guard(g_lock, static_cast<uint32_t>(base::sys_getpid()));
  const uint32_t known = g_shaped.find(key);
  if (known != Table::kNotFound) return known;
  Name* name = name_of(name_key);
  if (!name) {
    record::lose(GW_INCOMPLETE "kernel launches have no name: more than 12288 different names", 1);
    return 0;
  }
  if (gets_another_shape(*name)) {
    const uint32_t id = put(text, bytes, shape);
    g_shaped.add(key, id);
    ++name->shapes;
    return id;
  }
  uint32_t id = name->without_shape.load(std::memory_order_relaxed);
  if (!id) {
    id = put(text, bytes, KernelShape{});
    name->without_shape.store(id, std::memory_order_release);
  }
  return id;
}

// The id that this name's launches share whose shapes are not kept, 0: there is none. Without the lock.
uint32_t id_without_shape(uint64_t name_key) noexcept {
  const uint32_t index = g_name_index.find(name_key);
  return index == Table::kNotFound ? 0 : g_names[index].without_shape.load(std::memory_order_acquire);
}

}  // namespace

uint32_t kernel_id(const char* name, const KernelShape& shape) noexcept {
  if (!name) name = "";
  const size_t bytes = strnlen(name, kMaxNameBytes);
  const uint64_t name_key = hash_of(name, bytes);
  const uint64_t key = hash_of(name_key, shape);
  const uint32_t known = g_shaped.find(key);
  if (GW_LIKELY(known != Table::kNotFound)) return known;
  const uint32_t shared = id_without_shape(name_key);
  return shared ? shared : add_kernel(name_key, key, name, bytes, shape);
}

}  // namespace gpuwatch::cuda::cupti
