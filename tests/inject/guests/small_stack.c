// SPDX-License-Identifier: Apache-2.0
// The first thread to use CUDA, where recording starts, has the smallest stack that there is.
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

#include "fake_cudart.h"

static void* work(void* unused) {
  become_a_job();
  for (int i = 0; i < 20; ++i) cudaDeviceSynchronize();  // takes samples of the machine
  return unused;
}

int main(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) != 0) return 2;
  pthread_t thread;
  if (pthread_create(&thread, &attributes, work, NULL) != 0) return 3;
  pthread_join(thread, NULL);
  puts("done");
  return 0;
}
