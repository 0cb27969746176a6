// SPDX-License-Identifier: Apache-2.0
// A CUDA runtime in name only: four functions that sleep, under the vendor's SONAME and symbol version, so
// that a guest looks like a training job to the injected library. Durations are what makes calls tell apart
// in a trace.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void sleep_us(long us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

int cudaMalloc(void** to, size_t size) {
  *to = malloc(size);
  return *to ? 0 : 2;
}

int cudaFree(void* pointer) {
  free(pointer);
  return 0;
}

int cudaMemcpy(void* to, const void* from, size_t size, int kind) {
  (void)kind;
  sleep_us(200);
  memcpy(to, from, size);
  return 0;
}

int cudaDeviceSynchronize(void) {
  sleep_us(1000);
  return 0;
}
