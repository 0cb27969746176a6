// SPDX-License-Identifier: Apache-2.0
// The dynamic symbols of one loaded object, read in place. The dynamic linker's own look-up (dlsym) takes a
// lock that another thread may hold while it waits for this one (in a library's constructor), allocates, and
// replaces what the job's next dlerror() reports. Valid while the object is loaded. Thread and signal safe.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace gpuwatch::runtime {

constexpr uint32_t gnu_hash(const char* name) noexcept {
  uint32_t hash = 5381;
  for (; *name; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

struct WantedSymbol {
  const char* name;
  uint32_t hash;  // gnu_hash(name)
};

// The loadable segment that holds the address, null if the object does not contain it.
const ElfW(Phdr) * segment_of(const dl_phdr_info& object, uintptr_t address) noexcept;

class ElfSymbols {
 public:
  explicit ElfSymbols(const dl_phdr_info& object) noexcept;

  // The definition that a reference without a version, or with the newest one, binds to.
  void* find(const WantedSymbol& wanted) const noexcept;
  // The version of that definition; null if it has none.
  const char* version_of(const WantedSymbol& wanted) const noexcept;
  // Whether the object takes the symbol from another one, and the version that it asks for (null: any).
  bool refers_to(const char* name, const char** version) const noexcept;
  bool needs(const char* library) const noexcept;  // as a direct dependency
  const char* soname() const noexcept;             // null if it has none

 private:
  template <class T>
  static const T* at(ElfW(Addr) address) noexcept {
    return reinterpret_cast<const T*>(address);
  }
  void read(const ElfW(Dyn) & entry) noexcept;
  uint32_t find_index(const WantedSymbol& wanted) const noexcept;  // 0: not defined here
  uint32_t find_gnu(const WantedSymbol& wanted) const noexcept;
  uint32_t find_sysv(const WantedSymbol& wanted) const noexcept;
  bool is_definition(uint32_t index, const char* name) const noexcept;
  uint64_t end_of_undefined() const noexcept;
  const char* needed_version(uint16_t index) const noexcept;

  ElfW(Addr) base_ = 0;
  const ElfW(Dyn) * dynamic_ = nullptr;
  const ElfW(Sym) * table_ = nullptr;
  const char* names_ = nullptr;
  size_t names_bytes_ = 0;
  const uint16_t* versions_ = nullptr;
  const ElfW(Verdef) * defined_versions_ = nullptr;
  const ElfW(Verneed) * needed_versions_ = nullptr;
  const uint32_t* gnu_ = nullptr;   // DT_GNU_HASH
  const uint32_t* sysv_ = nullptr;  // DT_HASH
};

}  // namespace gpuwatch::runtime
