// SPDX-License-Identifier: Apache-2.0
// What a generated stub does: says once by name what is missing, and fails.
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

extern "C" int gwsim_unimplemented(const char* name, int code) {
  static std::mutex* mutex = new std::mutex;
  static auto* told = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  if (told->insert(name).second)
    std::fprintf(stderr, "[gpuwatch simulated device] unimplemented: %s\n", name);
  return code;
}
