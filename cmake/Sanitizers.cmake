# SPDX-License-Identifier: Apache-2.0
# GPUWATCH_SANITIZE=address or thread: everything except libgpuwatch.so, which is loaded into programs that
# are not instrumented and therefore must not be either. (The recorder is tested under TSan by linking it
# into a test program.)
set(GPUWATCH_SANITIZE "" CACHE STRING "address, thread or empty")
add_library(sanitizers INTERFACE)
if(GPUWATCH_SANITIZE STREQUAL "address")
  target_compile_options(sanitizers INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(sanitizers INTERFACE -fsanitize=address,undefined)
elseif(GPUWATCH_SANITIZE STREQUAL "thread")
  target_compile_options(sanitizers INTERFACE -fsanitize=thread)
  target_link_options(sanitizers INTERFACE -fsanitize=thread)
endif()
