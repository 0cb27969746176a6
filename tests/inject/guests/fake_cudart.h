// SPDX-License-Identifier: Apache-2.0
// What guests use of fake_cudart.c, and how they become worth recording.
#pragma once
#include <stddef.h>

int cudaMalloc(void** to, size_t size);
int cudaFree(void* pointer);
int cudaMemcpy(void* to, const void* from, size_t size, int kind);
int cudaDeviceSynchronize(void);

// Evidence: from here on the process is recorded, if anything can be.
static inline void become_a_job(void) {
  char from[16] = "abc";
  void* to;
  cudaMalloc(&to, sizeof from);
  cudaMemcpy(to, from, sizeof from, 1);
  cudaFree(to);
}
