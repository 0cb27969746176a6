// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/scope_lookup.h"

#include <dlfcn.h>

#include <cstring>

#include "libinject/base/text.h"
#include "libinject/runtime/own_library.h"

namespace gpuwatch::runtime {
namespace {

uintptr_t own_address() noexcept {
  return reinterpret_cast<uintptr_t>(&find_definitions);
}

bool is_a_copy_of_us(const ElfSymbols& symbols) noexcept {
  static constexpr WantedSymbol kOwn{kOwnExport, gnu_hash(kOwnExport)};
  return symbols.find(kOwn) != nullptr;
}

struct ByAddress {
  uintptr_t address;
  size_t position;
  LoadedObject* found;
};

int see_address(dl_phdr_info* object, size_t, void* argument) noexcept {
  auto& search = *static_cast<ByAddress*>(argument);
  if (const ElfW(Phdr)* segment = segment_of(*object, search.address)) {
    *search.found = {*object, search.position, object->dlpi_addr + segment->p_vaddr, segment->p_memsz};
    return 1;
  }
  ++search.position;
  return 0;
}

struct Survey {
  const WantedSymbol& wanted;
  Definitions found;
  bool is_behind_us;
};

int see_definition(dl_phdr_info* object, size_t, void* argument) noexcept {
  auto& survey = *static_cast<Survey*>(argument);
  if (!survey.is_behind_us) {
    survey.is_behind_us = segment_of(*object, own_address()) != nullptr;
    return 0;
  }
  const ElfSymbols symbols(*object);
  void* definition = symbols.find(survey.wanted);
  if (!definition || is_a_copy_of_us(symbols)) return 0;
  if (survey.found.count++ == 0) survey.found.first = definition;
  return 0;
}

// --- where a call comes from

struct Reference {
  const char* name;
  size_t position;
  LoadedObject* found;
};

int see_reference(dl_phdr_info* object, size_t, void* argument) noexcept {
  auto& search = *static_cast<Reference*>(argument);
  const ElfSymbols symbols(*object);
  const char* version = nullptr;
  if (symbols.refers_to(search.name, &version) && !is_a_copy_of_us(symbols)) {
    const ElfW(Phdr)& first = object->dlpi_phdr[0];
    *search.found = {*object, search.position, object->dlpi_addr + first.p_vaddr, 1};
    return 1;
  }
  ++search.position;
  return 0;
}

bool refers_to(const LoadedObject& object, const char* name) noexcept {
  const char* version = nullptr;
  return ElfSymbols(object.info).refers_to(name, &version);
}

// Reads the object's memory; false outside of it.
template <class T>
bool peek(const LoadedObject& object, uintptr_t at, T* value) noexcept {
  const ElfW(Phdr)* segment = segment_of(object.info, at);
  if (!segment || !(segment->p_flags & PF_R) || segment_of(object.info, at + sizeof(T) - 1) != segment)
    return false;
  std::memcpy(value, reinterpret_cast<const void*>(at), sizeof(T));
  return true;
}

// `jmp *slot(%rip)` of a procedure linkage table, behind what branch protection puts in front (endbr64, bnd).
uintptr_t slot_of_stub(const LoadedObject& object, uintptr_t at) noexcept {
  constexpr uint8_t kEndBranch[] = {0xf3, 0x0f, 0x1e, 0xfa};
  uint8_t code[12];
  if (!peek(object, at, &code)) return 0;
  size_t skipped = std::memcmp(code, kEndBranch, sizeof kEndBranch) == 0 ? sizeof kEndBranch : 0;
  if (code[skipped] == 0xf2) ++skipped;
  if (code[skipped] != 0xff || code[skipped + 1] != 0x25) return 0;
  int32_t distance;
  std::memcpy(&distance, code + skipped + 2, sizeof distance);
  return at + skipped + 6 + static_cast<intptr_t>(distance);
}

// What the call before the return address called: through the linkage table (E8), or through the slot itself
// (FF 15, -fno-plt). 0: something else, such as a call through a register.
uintptr_t called_from(const LoadedObject& object, uintptr_t return_address) noexcept {
  uint8_t code[6];
  if (!peek(object, return_address - sizeof code, &code)) return 0;
  int32_t distance;
  std::memcpy(&distance, code + 2, sizeof distance);
  const uintptr_t target = return_address + static_cast<intptr_t>(distance);
  uintptr_t slot = 0, called = 0;
  if (code[0] == 0xff && code[1] == 0x15) {
    slot = target;
  } else if (code[1] == 0xe8) {
    slot = slot_of_stub(object, target);
    if (!slot && segment_of(object.info, target)) return target;
  }
  return slot && peek(object, slot, &called) ? called : 0;
}

// --- scopes

struct NeededBy {
  LoadedObject* object;  // in: the needed one; out: the first one that needs it
  const char* soname;
  const char* file_name;
  size_t position;
};

int see_needed(dl_phdr_info* object, size_t, void* argument) noexcept {
  auto& search = *static_cast<NeededBy*>(argument);
  if (search.position == search.object->position) return 2;
  const ElfSymbols symbols(*object);
  if ((search.soname && symbols.needs(search.soname)) || symbols.needs(search.file_name)) {
    *search.object = {*object, search.position, 0, 0};
    return 1;
  }
  ++search.position;
  return 0;
}

// The library whose opening brought this one along: dependencies are loaded right behind the first object
// that needs them, so one that no earlier object needs was opened for its own sake.
LoadedObject root_of(LoadedObject object) noexcept {
  for (;;) {
    const char* path = object.info.dlpi_name ? object.info.dlpi_name : "";
    const ElfSymbols symbols(object.info);
    NeededBy search{&object, symbols.soname(), base::file_name(path), 0};
    if (dl_iterate_phdr(see_needed, &search) != 1) return object;
  }
}

bool is_usable(void* found, const WantedSymbol& wanted, const char* version, LoadedObject* object) noexcept {
  if (!found || !find_object(reinterpret_cast<uintptr_t>(found), object)) return false;
  const ElfSymbols symbols(object->info);
  if (is_a_copy_of_us(symbols)) return false;
  const char* has = version ? symbols.version_of(wanted) : nullptr;
  return !has || std::strcmp(has, version) == 0;
}

// A reference with a version takes a definition with that version, or one without any.
void* look_up_in(void* scope, const WantedSymbol& wanted, const char* version,
                 LoadedObject* object) noexcept {
  void* found = version && dlvsym ? dlvsym(scope, wanted.name, version) : nullptr;
  if (is_usable(found, wanted, nullptr, object)) return found;
  found = dlsym(scope, wanted.name);
  return is_usable(found, wanted, version, object) ? found : nullptr;
}

void* look_up_below(const LoadedObject& root, const WantedSymbol& wanted, const char* version) noexcept {
  if (!root.info.dlpi_name || !*root.info.dlpi_name) return nullptr;  // the program: its scope is the global
  void* handle = dlopen(root.info.dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return nullptr;
  LoadedObject where;
  void* found = look_up_in(handle, wanted, version, &where);
  dlclose(handle);
  return found;
}

}  // namespace

bool find_object(uintptr_t address, LoadedObject* object) noexcept {
  ByAddress search{address, 0, object};
  return dl_iterate_phdr(see_address, &search) != 0;
}

Definitions find_definitions(const WantedSymbol& wanted) noexcept {
  Survey survey{wanted, {}, false};
  dl_iterate_phdr(see_definition, &survey);
  return survey.found;
}

bool find_calling_object(const char* name, uintptr_t return_address, const void* hook,
                         LoadedObject* object) noexcept {
  if (find_object(return_address, object)) {
    const uintptr_t called = called_from(*object, return_address);
    LoadedObject other;
    if (called == reinterpret_cast<uintptr_t>(hook)) return true;
    if (called && find_object(called, &other) && refers_to(other, name)) return *object = other, true;
    if (refers_to(*object, name)) return true;
  }
  Reference search{name, 0, object};
  return dl_iterate_phdr(see_reference, &search) != 0;
}

void* look_up_for(const LoadedObject& object, const WantedSymbol& wanted) noexcept {
  if (!dlsym || !dlopen) return nullptr;  // weak: see base/glibc_floor.h
  const char* version = nullptr;
  ElfSymbols(object.info).refers_to(wanted.name, &version);
  LoadedObject where;
  void* found = look_up_in(RTLD_NEXT, wanted, version, &where);
  // What came into the global scope after the caller was loaded did not bind it: extensions are bound when
  // they are opened (RTLD_NOW, Python's default).
  if (!found || where.position > object.position) {
    if (void* local = look_up_below(root_of(object), wanted, version)) found = local;
  }
  if (dlerror) dlerror();  // a job must not find our look-ups in its next dlerror()
  return found;
}

}  // namespace gpuwatch::runtime
