// SPDX-License-Identifier: Apache-2.0
// An extension whose destructor waits for a thread that calls the runtime, as a pool's threads do when they
// free what they have. The dynamic linker holds its lock meanwhile.
#include <pthread.h>
#include <stddef.h>

int cudaDeviceSynchronize(void);

static volatile int g_runtime;

static void* synchronize(void* unused) {
  g_runtime = cudaDeviceSynchronize();
  return unused;
}

int direct(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, synchronize, NULL) == 0) pthread_join(thread, NULL);
  return g_runtime;
}

__attribute__((destructor)) static void close_down(void) {
  direct();
}
