// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/next_definition.h"

#include <elf.h>
#include <link.h>

#include <cstring>

#include "libinject/base/errno_guard.h"

namespace gpuwatch::runtime {
namespace {

constexpr uint16_t kHiddenVersion = 0x8000;  // of a versym entry: not the default version

// The dynamic symbol table of one loaded object.
struct Symbols {
  ElfW(Addr) base = 0;
  const ElfW(Sym) * table = nullptr;
  const char* names = nullptr;
  const uint16_t* versions = nullptr;
  const uint32_t* gnu = nullptr;   // DT_GNU_HASH
  const uint32_t* sysv = nullptr;  // DT_HASH, where there is no other

  explicit Symbols(const dl_phdr_info& object) noexcept : base(object.dlpi_addr) {
    for (size_t i = 0; i < object.dlpi_phnum; ++i) {
      if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
      for (auto* entry = at<ElfW(Dyn)>(object.dlpi_phdr[i].p_vaddr + base); entry->d_tag != DT_NULL;
           ++entry) {
        read(*entry);
      }
    }
  }

  // The definition that a reference without a version, or with the newest one, binds to.
  void* find(const WantedSymbol& wanted) const noexcept {
    if (!table || !names) return nullptr;
    return gnu ? find_gnu(wanted) : sysv ? find_sysv(wanted) : nullptr;
  }

 private:
  template <class T>
  static const T* at(ElfW(Addr) address) noexcept {
    return reinterpret_cast<const T*>(address);
  }

  void read(const ElfW(Dyn) & entry) noexcept {
    // ld.so has relocated these in place, save in objects whose dynamic section is read-only (the vDSO).
    const ElfW(Addr) address = entry.d_un.d_ptr < base ? entry.d_un.d_ptr + base : entry.d_un.d_ptr;
    switch (entry.d_tag) {
      case DT_SYMTAB:
        table = at<ElfW(Sym)>(address);
        break;
      case DT_STRTAB:
        names = at<char>(address);
        break;
      case DT_VERSYM:
        versions = at<uint16_t>(address);
        break;
      case DT_GNU_HASH:
        gnu = at<uint32_t>(address);
        break;
      case DT_HASH:
        sysv = at<uint32_t>(address);
        break;
      default:
        break;
    }
  }

  void* find_gnu(const WantedSymbol& wanted) const noexcept {
    const uint32_t bucket_count = gnu[0];
    const uint32_t first = gnu[1];
    const uint32_t bloom_words = gnu[2];
    const uint32_t bloom_shift = gnu[3];
    const auto* bloom = reinterpret_cast<const uint64_t*>(gnu + 4);
    const uint64_t mask = 1ull << (wanted.hash % 64) | 1ull << ((wanted.hash >> bloom_shift) % 64);
    if (bucket_count == 0 || (bloom[wanted.hash / 64 % bloom_words] & mask) != mask) return nullptr;
    const auto* buckets = reinterpret_cast<const uint32_t*>(bloom + bloom_words);
    const uint32_t* chains = buckets + bucket_count;
    uint32_t index = buckets[wanted.hash % bucket_count];
    if (index < first) return nullptr;
    for (;; ++index) {
      const uint32_t hash = chains[index - first];
      if ((hash | 1) == (wanted.hash | 1)) {
        if (void* found = definition(index, wanted.name)) return found;
      }
      if (hash & 1) return nullptr;
    }
  }

  // Only for objects linked with --hash-style=sysv: rare, so the chains are simply walked in table order.
  void* find_sysv(const WantedSymbol& wanted) const noexcept {
    const uint32_t symbol_count = sysv[1];
    for (uint32_t index = 1; index < symbol_count; ++index) {
      if (void* found = definition(index, wanted.name)) return found;
    }
    return nullptr;
  }

  void* definition(uint32_t index, const char* name) const noexcept {
    const ElfW(Sym)& symbol = table[index];
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return nullptr;
    if (versions && (versions[index] & kHiddenVersion)) return nullptr;
    if (std::strcmp(names + symbol.st_name, name) != 0) return nullptr;
    const ElfW(Addr) address = base + symbol.st_value;
    switch (ELF64_ST_TYPE(symbol.st_info)) {
      case STT_FUNC:
      case STT_NOTYPE:
        return reinterpret_cast<void*>(address);
      case STT_GNU_IFUNC:
        return reinterpret_cast<void* (*)()>(address)();
      default:
        return nullptr;
    }
  }
};

struct Search {
  const WantedSymbol* wanted;
  void** found;
  size_t count;
  size_t missing;
  bool is_behind_us;  // false until the walk has passed this library
};

bool contains_us(const dl_phdr_info& object) noexcept {
  const auto here = reinterpret_cast<ElfW(Addr)>(&find_next_definitions);
  for (size_t i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && here - object.dlpi_addr - segment.p_vaddr < segment.p_memsz) return true;
  }
  return false;
}

int visit(dl_phdr_info* object, size_t, void* argument) noexcept {
  auto& search = *static_cast<Search*>(argument);
  if (!search.is_behind_us) {
    search.is_behind_us = contains_us(*object);
    return 0;
  }
  const Symbols symbols(*object);
  for (size_t i = 0; i < search.count; ++i) {
    if (search.found[i]) continue;
    search.found[i] = symbols.find(search.wanted[i]);
    if (search.found[i]) --search.missing;
  }
  return search.missing == 0;
}

}  // namespace

void find_next_definitions(const WantedSymbol* wanted, void** found, size_t count) noexcept {
  const base::ErrnoGuard keep_errno;
  size_t missing = 0;
  for (size_t i = 0; i < count; ++i) missing += found[i] == nullptr;
  Search search{wanted, found, count, missing, false};
  dl_iterate_phdr(visit, &search);
}

}  // namespace gpuwatch::runtime
