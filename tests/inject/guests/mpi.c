// SPDX-License-Identifier: Apache-2.0
// mpi: a program that uses the device, and MPI, on fake_mpi.c.
#include <stdio.h>

#include "fake_cudart.h"

int MPI_Allreduce(const void* from, void* to, int count, int type, int op, int comm);
int MPI_Scatter(const void* from, int count, int type, void* to, int to_count, int to_type, int root,
                int comm);
int MPI_Barrier(int comm);

int main(void) {
  become_a_job();
  float from[100] = {1.5f}, to[100] = {0};
  int results = 0;
  for (int i = 0; i < 3; ++i) results += MPI_Allreduce(from, to, 100, 7, 3, 0x44000000);
  results += MPI_Scatter(from, 1, 7, to, 2, 8, -1, 0x44000000);
  for (int i = 0; i < 1000; ++i) results += MPI_Barrier(0x44000000);
  printf("results: %d, reduced: %.1f\n", results, to[0]);
  return 0;
}
