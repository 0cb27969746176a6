// SPDX-License-Identifier: Apache-2.0
// A program with an allocator of its own that does I/O in its first call, as jemalloc and tcmalloc do: before
// any constructor has run, and while libc is still being set up.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fake_cudart.h"

static char g_arena[64 << 20] __attribute__((aligned(16)));
static size_t g_used;
static int g_is_ready;
static int g_bytes_read;

static void set_up(void) {
  g_is_ready = 1;
  char text[32];
  const int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY);
  if (fd < 0) return;
  g_bytes_read = (int)read(fd, text, sizeof text);
  close(fd);
}

void* malloc(size_t size) {
  if (!g_is_ready) set_up();
  const size_t at = __atomic_fetch_add(&g_used, (size + 31) & ~(size_t)15, __ATOMIC_RELAXED);
  if (at + size + 16 > sizeof g_arena) return NULL;
  *(size_t*)(g_arena + at) = size;
  return g_arena + at + 16;
}
void free(void* pointer) {
  (void)pointer;
}
void* calloc(size_t count, size_t size) {
  void* made = malloc(count * size);
  return made ? memset(made, 0, count * size) : NULL;
}
void* realloc(void* old, size_t size) {
  void* made = malloc(size);
  if (!old || !made) return made;
  const size_t before = *(size_t*)((char*)old - 16);
  return memcpy(made, old, before < size ? before : size);
}

static void* thread(void* unused) {
  usleep(1000);
  return unused;
}

int main(void) {
  become_a_job();
  pthread_t made;
  pthread_create(&made, NULL, thread, NULL);
  pthread_join(made, NULL);
  printf("allocator read %s\n", g_bytes_read > 0 ? "its setting" : "nothing");
  return 0;
}
