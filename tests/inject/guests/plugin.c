// SPDX-License-Identifier: Apache-2.0
// A shared object that brings libcudart along, for loading.c.
#include "fake_cudart.h"

int plugin_work(void) {
  become_a_job();
  return cudaDeviceSynchronize() == 0;
}
