// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/elf_symbols.h"

#include <elf.h>

#include <cstring>

namespace gpuwatch::runtime {
namespace {

constexpr uint16_t kHiddenVersion = 0x8000;  // of a versym entry: not the default version
constexpr uint16_t kVersionIndex = 0x7fff;

template <class T>
const T* after(const T* entry, uint32_t bytes) noexcept {
  return reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(entry) + bytes);
}

}  // namespace

const ElfW(Phdr) * segment_of(const dl_phdr_info& object, uintptr_t address) noexcept {
  for (size_t i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && address - object.dlpi_addr - segment.p_vaddr < segment.p_memsz)
      return &segment;
  }
  return nullptr;
}

ElfSymbols::ElfSymbols(const dl_phdr_info& object) noexcept : base_(object.dlpi_addr) {
  for (size_t i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic_ = at<ElfW(Dyn)>(object.dlpi_phdr[i].p_vaddr + base_);
  }
  for (auto* entry = dynamic_; entry && entry->d_tag != DT_NULL; ++entry) read(*entry);
  if (!names_) table_ = nullptr;
}

void ElfSymbols::read(const ElfW(Dyn) & entry) noexcept {
  // ld.so has relocated these in place, save in objects whose dynamic section is read-only (the vDSO).
  const ElfW(Addr) address = entry.d_un.d_ptr < base_ ? entry.d_un.d_ptr + base_ : entry.d_un.d_ptr;
  switch (entry.d_tag) {
    case DT_SYMTAB:
      table_ = at<ElfW(Sym)>(address);
      break;
    case DT_STRTAB:
      names_ = at<char>(address);
      break;
    case DT_STRSZ:
      names_bytes_ = entry.d_un.d_val;
      break;
    case DT_VERSYM:
      versions_ = at<uint16_t>(address);
      break;
    case DT_VERDEF:
      defined_versions_ = at<ElfW(Verdef)>(address);
      break;
    case DT_VERNEED:
      needed_versions_ = at<ElfW(Verneed)>(address);
      break;
    case DT_GNU_HASH:
      gnu_ = at<uint32_t>(address);
      break;
    case DT_HASH:
      sysv_ = at<uint32_t>(address);
      break;
    default:
      break;
  }
}

void* ElfSymbols::find(const WantedSymbol& wanted) const noexcept {
  const uint32_t index = find_index(wanted);
  if (!index) return nullptr;
  const ElfW(Addr) address = base_ + table_[index].st_value;
  if (ELF64_ST_TYPE(table_[index].st_info) == STT_GNU_IFUNC) return reinterpret_cast<void* (*)()>(address)();
  return reinterpret_cast<void*>(address);
}

uint32_t ElfSymbols::find_index(const WantedSymbol& wanted) const noexcept {
  if (!table_) return 0;
  return gnu_ ? find_gnu(wanted) : sysv_ ? find_sysv(wanted) : 0;
}

uint32_t ElfSymbols::find_gnu(const WantedSymbol& wanted) const noexcept {
  const uint32_t bucket_count = gnu_[0];
  const uint32_t first = gnu_[1];
  const uint32_t bloom_words = gnu_[2];
  const uint32_t bloom_shift = gnu_[3];
  const auto* bloom = reinterpret_cast<const uint64_t*>(gnu_ + 4);
  const uint64_t mask = 1ull << (wanted.hash % 64) | 1ull << ((wanted.hash >> bloom_shift) % 64);
  if (bucket_count == 0 || (bloom[wanted.hash / 64 % bloom_words] & mask) != mask) return 0;
  const auto* buckets = reinterpret_cast<const uint32_t*>(bloom + bloom_words);
  const uint32_t* chains = buckets + bucket_count;
  uint32_t index = buckets[wanted.hash % bucket_count];
  if (index < first) return 0;
  for (;; ++index) {
    const uint32_t hash = chains[index - first];
    if ((hash | 1) == (wanted.hash | 1) && is_definition(index, wanted.name)) return index;
    if (hash & 1) return 0;
  }
}

// Only for objects linked with --hash-style=sysv: rare, so the chains are simply walked in table order.
uint32_t ElfSymbols::find_sysv(const WantedSymbol& wanted) const noexcept {
  const uint32_t symbol_count = sysv_[1];
  for (uint32_t index = 1; index < symbol_count; ++index) {
    if (is_definition(index, wanted.name)) return index;
  }
  return 0;
}

bool ElfSymbols::is_definition(uint32_t index, const char* name) const noexcept {
  const ElfW(Sym)& symbol = table_[index];
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return false;
  if (versions_ && (versions_[index] & kHiddenVersion)) return false;
  const auto type = ELF64_ST_TYPE(symbol.st_info);
  if (type != STT_FUNC && type != STT_NOTYPE && type != STT_GNU_IFUNC) return false;
  return std::strcmp(names_ + symbol.st_name, name) == 0;
}

const char* ElfSymbols::version_of(const WantedSymbol& wanted) const noexcept {
  const uint32_t index = find_index(wanted);
  if (!index || !versions_ || !defined_versions_) return nullptr;
  for (auto* version = defined_versions_;; version = after(version, version->vd_next)) {
    const bool is_it = version->vd_ndx == (versions_[index] & kVersionIndex);
    if (is_it && !(version->vd_flags & VER_FLG_BASE)) {
      const auto address = reinterpret_cast<uintptr_t>(version) + version->vd_aux;
      return names_ + at<ElfW(Verdaux)>(address)->vda_name;
    }
    if (!version->vd_next) return nullptr;
  }
}

// A GNU hash table leaves undefined symbols out; they come before those that it holds. Where it holds none (a
// program), nothing tells how many there are: linkers lay the names behind the table.
uint64_t ElfSymbols::end_of_undefined() const noexcept {
  if (!table_) return 0;
  if (sysv_) return sysv_[1];
  if (gnu_ && gnu_[1] > 1) return gnu_[1];
  const auto begin = reinterpret_cast<uintptr_t>(table_), end = reinterpret_cast<uintptr_t>(names_);
  return end > begin ? (end - begin) / sizeof(ElfW(Sym)) : 0;
}

bool ElfSymbols::refers_to(const char* name, const char** version) const noexcept {
  const uint64_t end = end_of_undefined();
  for (uint32_t index = 1; index < end; ++index) {
    const ElfW(Sym)& symbol = table_[index];
    if (symbol.st_shndx != SHN_UNDEF || symbol.st_name >= names_bytes_) continue;
    if (std::strcmp(names_ + symbol.st_name, name) != 0) continue;
    *version = versions_ ? needed_version(versions_[index] & kVersionIndex) : nullptr;
    return true;
  }
  return false;
}

const char* ElfSymbols::needed_version(uint16_t index) const noexcept {
  for (auto* library = needed_versions_; library; library = after(library, library->vn_next)) {
    auto* version = at<ElfW(Vernaux)>(reinterpret_cast<uintptr_t>(library) + library->vn_aux);
    for (uint16_t left = library->vn_cnt; left; --left, version = after(version, version->vna_next)) {
      if ((version->vna_other & kVersionIndex) == index) return names_ + version->vna_name;
    }
    if (!library->vn_next) break;
  }
  return nullptr;
}

bool ElfSymbols::needs(const char* library) const noexcept {
  for (auto* entry = names_ ? dynamic_ : nullptr; entry && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED && std::strcmp(names_ + entry->d_un.d_val, library) == 0) return true;
  }
  return false;
}

const char* ElfSymbols::soname() const noexcept {
  for (auto* entry = names_ ? dynamic_ : nullptr; entry && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SONAME) return names_ + entry->d_un.d_val;
  }
  return nullptr;
}

}  // namespace gpuwatch::runtime
