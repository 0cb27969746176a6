// SPDX-License-Identifier: Apache-2.0
// A library that others call (as extensions call PyTorch's libc10_cuda): it ends in a call of the runtime,
// which then returns to the caller's caller (tail call).
int cudaDeviceSynchronize(void);

int helper_synchronize(void) {
  return cudaDeviceSynchronize();
}
