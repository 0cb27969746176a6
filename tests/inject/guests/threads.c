// SPDX-License-Identifier: Apache-2.0
// threads <what>: many threads, small stacks, signal handlers that do I/O, jumps out of waits.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "fake_cudart.h"

static int g_null;

static void sleep_us(long us) {
  const struct timespec time = {0, us * 1000};
  nanosleep(&time, NULL);
}

static void* short_life(void* unused) {
  sleep_us(200);
  return unused;
}

static void storm(size_t stack) {
  enum { kThreads = 1200, kAtOnce = 50 };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (stack) pthread_attr_setstacksize(&attributes, stack);
  int ended = 0;
  for (int i = 0; i < kThreads; i += kAtOnce) {
    pthread_t threads[kAtOnce];
    for (int j = 0; j < kAtOnce; ++j) {
      if (pthread_create(&threads[j], &attributes, short_life, NULL) != 0) abort();
    }
    for (int j = 0; j < kAtOnce; ++j) ended += pthread_join(threads[j], NULL) == 0;
  }
  printf("threads ended: %d\n", ended);
}

static void* one_short_read(void* unused) {
  char byte;
  if (pread(g_null, &byte, 1, 0) != 0) abort();
  return unused;
}

// Threads that are created, do next to nothing and end.
static void idle_threads(void) {
  g_null = open("/dev/null", O_RDONLY);
  for (int i = 0; i < 2000; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, one_short_read, NULL) != 0) abort();
    pthread_join(thread, NULL);
  }
}

// A handler's own calls: their errno is its own business, the interrupted call's must be what the kernel
// said.
static int g_pipe[2];
static volatile sig_atomic_t g_handled;
static void handler(int signal) {
  (void)signal;
  const int before = errno;
  char byte = 'x';
  if (write(g_pipe[1], &byte, 1) == 1 && read(g_pipe[0], &byte, 1) == 1) ++g_handled;
  if (read(-1, &byte, 1) != -1) abort();
  sleep_us(100);
  errno = before;
}

static void interrupted_waits(void) {
  if (pipe(g_pipe)) abort();
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval every = {{0, 3000}, {0, 3000}};
  setitimer(ITIMER_REAL, &every, NULL);
  int interrupted = 0;
  for (int i = 0; i < 20; ++i) interrupted += poll(NULL, 0, 1000) == -1 && errno == EINTR;
  for (int i = 0; i < 20; ++i) become_a_job();
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  printf("interrupted: %d, handled: %s\n", interrupted, g_handled >= 20 ? "all" : "too few");
}

static sigjmp_buf g_back;
static void jump(int signal) {
  (void)signal;
  siglongjmp(g_back, 1);
}

// A wait that never returns, because the handler jumps over it. The next ones nest no deeper for it.
static void jumps(void) {
  struct sigaction action = {.sa_handler = jump};
  sigaction(SIGALRM, &action, NULL);
  volatile int jumped = 0;
  for (volatile int i = 0; i < 20; ++i) {
    const struct itimerval once = {{0, 0}, {0, 2000}};
    if (sigsetjmp(g_back, 1) == 0) {
      setitimer(ITIMER_REAL, &once, NULL);
      poll(NULL, 0, 1000);
    } else {
      ++jumped;
    }
  }
  printf("jumped: %d\n", jumped);
}

// A training loop's face: a synchronisation every millisecond, and half of the time computing.
static void steps(void) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    cudaDeviceSynchronize();
    for (volatile int i = 0; i < 300000; ++i) {
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - begin.tv_sec < 4);
}

int main(int argc, char** argv) {
  become_a_job();
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "storm") == 0) storm(0);
  if (strcmp(what, "small-stacks") == 0) storm((size_t)PTHREAD_STACK_MIN);
  if (strcmp(what, "signals") == 0) interrupted_waits();
  if (strcmp(what, "jumps") == 0) jumps();
  if (strcmp(what, "idle") == 0) idle_threads();
  if (strcmp(what, "steps") == 0) steps();
  become_a_job();
  return 0;
}
