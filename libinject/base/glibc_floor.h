// SPDX-License-Identifier: Apache-2.0
// Included before everything else in every injected source (compiler flag -include). A preloaded library that
// asks for a symbol version the host's glibc does not have stops every command of the user, so no reference
// may be newer than GLIBC_2.28. Functions that glibc 2.34 moved from libdl and libpthread into libc are bound
// to the version they have had since 2.2.5, weakly: on an older glibc a process that never loaded libdl has
// them not, stays dormant, and starts all the same. scripts/check_library.sh looks at the built file.
#pragma once

#if defined(__x86_64__) && !defined(__ASSEMBLER__)
#define GW_OLD(function, version) __asm__(".symver " #function ", " #function "@" version)
GW_OLD(dlsym, "GLIBC_2.2.5");
GW_OLD(dlvsym, "GLIBC_2.2.5");
GW_OLD(dlopen, "GLIBC_2.2.5");
GW_OLD(dlerror, "GLIBC_2.2.5");
GW_OLD(dladdr, "GLIBC_2.2.5");
GW_OLD(dladdr1, "GLIBC_2.3.3");
GW_OLD(dlinfo, "GLIBC_2.3.3");
GW_OLD(pthread_create, "GLIBC_2.2.5");
GW_OLD(pthread_detach, "GLIBC_2.2.5");
GW_OLD(pthread_key_create, "GLIBC_2.2.5");
GW_OLD(pthread_setspecific, "GLIBC_2.2.5");
GW_OLD(pthread_getspecific, "GLIBC_2.2.5");
GW_OLD(pthread_once, "GLIBC_2.2.5");
GW_OLD(pthread_sigmask, "GLIBC_2.2.5");
#undef GW_OLD
#pragma weak dlsym
#pragma weak dlvsym
#pragma weak dlopen
#pragma weak dlerror
#pragma weak dladdr
#pragma weak dladdr1
#pragma weak dlinfo
#pragma weak pthread_create
#pragma weak pthread_detach
#pragma weak pthread_key_create
#pragma weak pthread_setspecific
#pragma weak pthread_getspecific
#pragma weak pthread_once
#pragma weak pthread_sigmask
#endif
