// SPDX-License-Identifier: Apache-2.0
// No dynamic linker, so nothing to preload into.
#include <stdio.h>

int main(void) {
  puts("static");
  return 0;
}
