// SPDX-License-Identifier: Apache-2.0
// loading <plugin> local|global|deepbind|close: the CUDA runtime comes in with a plugin, as with a Python
// extension.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  int flags = RTLD_NOW;
  if (strcmp(argv[2], "global") == 0) flags |= RTLD_GLOBAL;
  if (strcmp(argv[2], "deepbind") == 0) flags |= RTLD_DEEPBIND;
  const int rounds = strcmp(argv[2], "close") == 0 ? 20 : 1;
  int total = 0;
  for (int i = 0; i < rounds; ++i) {
    void* plugin = dlopen(argv[1], flags);
    if (!plugin) return puts(dlerror()), 3;
    int (*work)(void) = (int (*)(void))dlsym(plugin, "plugin_work");
    total += work();
    if (rounds > 1) dlclose(plugin);
  }
  // The job's own failed look-up is what its dlerror() reports.
  dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere");
  printf("work: %d, dlerror: %s\n", total, dlerror() ? "set" : "empty");
  return 0;
}
