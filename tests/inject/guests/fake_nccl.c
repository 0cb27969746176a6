// SPDX-License-Identifier: Apache-2.0
// An NCCL in name only: checks that arguments arrive, also those that travel on the stack, and sleeps.
#include <stddef.h>
#include <string.h>
#include <time.h>

typedef struct {
  char internal[128];
} UniqueId;

int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank) {
  *comm = (void*)0x12345670;
  return ranks == 2 && rank == 1 && strcmp(id.internal, "the id") == 0 ? 0 : 4;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream) {
  const struct timespec time = {0, 1000000};
  nanosleep(&time, NULL);
  memcpy(to, from, count * 4);
  return type == 7 && op == 0 && comm == (void*)0x12345670 && stream == (void*)0x77 ? 0 : 4;
}

int ncclGroupStart(void) {
  return 0;
}
int ncclGroupEnd(void) {
  return 5;
}
int ncclCommWindowRegister(void* comm, void* buffer, size_t bytes, void** window, int flags) {
  *window = buffer;
  return comm == (void*)0x12345670 && bytes == 400 && flags == 1 ? 0 : 4;
}
int ncclCommWindowDeregister(void* comm, void* window) {
  return comm == (void*)0x12345670 && window ? 0 : 4;
}
int ncclCommDestroy(void* comm) {
  return comm ? 0 : 4;
}
