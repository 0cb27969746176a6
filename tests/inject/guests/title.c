// SPDX-License-Identifier: Apache-2.0
// title: writes a title over its arguments and environment, as setproctitle, Ray and vLLM do, goes to another
// directory, and only then becomes worth recording.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cudart.h"

extern char** environ;

static void move_environment(void) {
  size_t count = 0;
  while (environ[count]) ++count;
  char** moved = calloc(count + 1, sizeof *moved);
  for (size_t i = 0; i < count; ++i) moved[i] = strdup(environ[i]);
  environ = moved;
}

int main(int argc, char** argv) {
  char* begin = argv[0];
  char* end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;
  for (char** entry = environ; *entry; ++entry) {
    if (*entry == end) end += strlen(end) + 1;
  }
  move_environment();
  memset(begin, 0, (size_t)(end - begin));
  snprintf(begin, (size_t)(end - begin), "ray::IDLE");
  if (chdir("/") != 0) return 1;
  become_a_job();
  return 0;
}
