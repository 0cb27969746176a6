// SPDX-License-Identifier: Apache-2.0
// nccl: a communicator's life, on fake_nccl.c.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char internal[128];
} UniqueId;
int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank);
int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclCommWindowRegister(void* comm, void* buffer, size_t bytes, void** window, int flags);
int ncclCommWindowDeregister(void* comm, void* window);
int ncclCommDestroy(void* comm);

int main(void) {
  UniqueId id;
  memset(&id, 0, sizeof id);
  strcpy(id.internal, "the id");
  void* comm = NULL;
  int results = ncclCommInitRank(&comm, 2, id, 1);
  float from[100] = {1.5f}, to[100] = {0};
  void* window = NULL;
  results += ncclCommWindowRegister(comm, to, sizeof to, &window, 1);
  for (int i = 0; i < 3; ++i) results += ncclAllReduce(from, to, 100, 7, 0, comm, (void*)0x77);
  const int group = ncclGroupStart() + ncclGroupEnd();
  results += ncclCommWindowDeregister(comm, window);
  results += ncclCommDestroy(comm);
  printf("results: %d, group: %d, reduced: %.1f\n", results, group, to[0]);
  return 0;
}
