// SPDX-License-Identifier: Apache-2.0
// One of two CUDA runtimes in a process: its call tells which one it is.
int cudaDeviceSynchronize(void) {
  return RUNTIME;
}
