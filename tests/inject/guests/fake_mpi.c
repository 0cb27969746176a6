// SPDX-License-Identifier: Apache-2.0
// An MPI in name only: checks that arguments arrive, also those that travel on the stack, and spins, as MPI
// does.
#include <time.h>

static void spin_ms(double ms) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((double)(now.tv_sec - begin.tv_sec) * 1e3 + (double)(now.tv_nsec - begin.tv_nsec) / 1e6 < ms);
}

int MPI_Allreduce(const void* from, void* to, int count, int type, int op, int comm) {
  spin_ms(2);
  *(float*)to = *(const float*)from;
  return count == 100 && type == 7 && op == 3 && comm == 0x44000000 ? 0 : 5;
}

int MPI_Scatter(const void* from, int count, int type, void* to, int to_count, int to_type, int root,
                int comm) {
  spin_ms(2);
  return from != to && count == 1 && type == 7 && to_count == 2 && to_type == 8 && root == -1 &&
                 comm == 0x44000000
             ? 0
             : 5;
}

int MPI_Barrier(int comm) {  // nobody is late
  return comm == 0x44000000 ? 0 : 5;
}
