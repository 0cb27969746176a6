// SPDX-License-Identifier: Apache-2.0
// runtimes <folder> <step>...: opens and closes libraries and prints which runtime their calls reach. A step
// is a library's name, with "+global", "+deepbind" or "+close" behind it, or "call" (all that are open).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { kMost = 16 };
static void* g_open[kMost];
static char g_name[kMost][64];
static int g_count;

static void call(int i, const char* function) {
  int (*run)(void) = (int (*)(void))dlsym(g_open[i], function);
  // Twice: looked up, and kept. A runtime is no extension and is not called.
  if (run && dlsym(g_open[i], "direct")) printf("%s %s: %d %d\n", g_name[i], function, run(), run());
}

static void close_library(const char* name) {
  for (int i = 0; i < g_count; ++i) {
    if (strcmp(g_name[i], name) != 0) continue;
    dlclose(g_open[i]);
    --g_count;
    g_open[i] = g_open[g_count];
    memmove(g_name[i], g_name[g_count], sizeof g_name[i]);
    return;
  }
}

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "%s", argv[i]);
    if (strcmp(name, "call") == 0) {
      for (int j = 0; j < g_count; ++j) call(j, "direct"), call(j, "through_helper");
      continue;
    }
    char* option = strchr(name, '+');
    if (option) *option++ = 0;
    if (option && strcmp(option, "close") == 0) {
      close_library(name);
      continue;
    }
    int flags = RTLD_NOW;
    if (option && strcmp(option, "global") == 0) flags |= RTLD_GLOBAL;
    if (option && strcmp(option, "deepbind") == 0) flags |= RTLD_DEEPBIND;
    snprintf(path, sizeof path, "%s/lib%s.so", argv[1], name);
    g_open[g_count] = dlopen(path, flags);
    if (!g_open[g_count]) return puts(dlerror()), 1;
    strcpy(g_name[g_count++], name);
  }
  return 0;
}
