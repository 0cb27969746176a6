// SPDX-License-Identifier: Apache-2.0
// Somebody else's preloaded library: counts read() on its way to the next definition, and says so at the end.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static int g_reads;

ssize_t read(int fd, void* to, size_t size) {
  static ssize_t (*next)(int, void*, size_t);
  if (!next) next = (ssize_t(*)(int, void*, size_t))dlsym(RTLD_NEXT, "read");
  ++g_reads;
  return next(fd, to, size);
}

__attribute__((destructor)) static void tell(void) {
  fprintf(stderr, "other library saw %d reads\n", g_reads);
}
