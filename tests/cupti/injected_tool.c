// SPDX-License-Identifier: Apache-2.0
// Another tool that the CUDA driver loads (CUDA_INJECTION64_PATH): subscribes to CUPTI and says what came of
// it. It finds CUPTI by dlsym, past all hooked symbols.
#include <dlfcn.h>
#include <stdio.h>

static void on_call(void* user, int domain, unsigned id, const void* data) {
  (void)user, (void)domain, (void)id, (void)data;
}

int InitializeInjection(void) {
  void* library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  int (*subscribe)(void*, void (*)(void*, int, unsigned, const void*), void*) =
      library ? (int (*)(void*, void (*)(void*, int, unsigned, const void*), void*))dlsym(library,
                                                                                          "cuptiSubscribe")
              : NULL;
  static void* subscriber;
  fprintf(stderr, "injected tool: cuptiSubscribe %d\n",
          subscribe ? subscribe(&subscriber, on_call, NULL) : -1);
  return 1;
}
