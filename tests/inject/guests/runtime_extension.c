// SPDX-License-Identifier: Apache-2.0
// An extension with a runtime of its own. The results pass through a volatile, so that none of the calls is a
// tail call.
int cudaDeviceSynchronize(void);
int helper_synchronize(void);

int direct(void) {
  volatile int runtime = cudaDeviceSynchronize();
  return runtime;
}

int through_helper(void) {
  volatile int runtime = helper_synchronize();
  return runtime;
}
