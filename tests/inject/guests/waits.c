// SPDX-License-Identifier: Apache-2.0
// waits          every hooked wait, once, with its result and errno; each but those marked 0 blocks for 20 ms
// waits cancel   each in a thread that is cancelled in mid-wait
// waits hang     a thread in sem_wait, the main thread in poll, for ever (to be killed)
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_cudart.h"

static int g_for_ever;  // waits do not time out
static long g_result;
static pid_t g_child;

static struct timespec from_now(clockid_t clock, long ms) {
  struct timespec now;
  clock_gettime(clock, &now);
  if (g_for_ever) ms = 1000000;
  now.tv_nsec += ms % 1000 * 1000000;
  now.tv_sec += ms / 1000 + now.tv_nsec / 1000000000;
  now.tv_nsec %= 1000000000;
  return now;
}

static sem_t g_sem;
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_cond = PTHREAD_COND_INITIALIZER;
static int g_pipe[2];
static int g_socket[2];

static void* nap(void* unused) {
  struct timespec time = {g_for_ever ? 1000 : 0, 20000000};
  nanosleep(&time, NULL);
  return unused;
}

static void* poke(void* unused) {  // lets those waits end that have no time-out
  struct timespec time = {0, 20000000};
  nanosleep(&time, NULL);
  sem_post(&g_sem);
  pthread_mutex_lock(&g_mutex);
  pthread_cond_broadcast(&g_cond);
  pthread_mutex_unlock(&g_mutex);
  if (write(g_pipe[1], "x", 1) != 1 || write(g_socket[1], "y", 1) != 1) abort();
  return unused;
}

#define TIMED(clock) const struct timespec until = from_now(clock, 20)
static void unlock(void* mutex) {
  pthread_mutex_unlock(mutex);
}
static int timeout_ms(void) {
  return g_for_ever ? -1 : 20;
}
static char g_buffer[8], g_large[8192];

static void do_sem_wait(void) {
  g_result = sem_wait(&g_sem);
}
static void do_sem_timedwait(void) {
  TIMED(CLOCK_REALTIME);
  g_result = sem_timedwait(&g_sem, &until);
}
static void do_sem_clockwait(void) {
  TIMED(CLOCK_MONOTONIC);
  g_result = sem_clockwait(&g_sem, CLOCK_MONOTONIC, &until);
}
static void do_cond_wait(void) {
  pthread_mutex_lock(&g_mutex);
  pthread_cleanup_push(unlock, &g_mutex);
  g_result = pthread_cond_wait(&g_cond, &g_mutex);
  pthread_cleanup_pop(1);
}
static void do_cond_timedwait(void) {
  TIMED(CLOCK_REALTIME);
  pthread_mutex_lock(&g_mutex);
  pthread_cleanup_push(unlock, &g_mutex);
  g_result = pthread_cond_timedwait(&g_cond, &g_mutex, &until);
  pthread_cleanup_pop(1);
}
static void do_cond_clockwait(void) {
  TIMED(CLOCK_MONOTONIC);
  pthread_mutex_lock(&g_mutex);
  pthread_cleanup_push(unlock, &g_mutex);
  g_result = pthread_cond_clockwait(&g_cond, &g_mutex, CLOCK_MONOTONIC, &until);
  pthread_cleanup_pop(1);
}
static void do_join(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, nap, NULL);
  g_result = pthread_join(thread, NULL);
}
static void do_poll(void) {
  struct pollfd fd = {g_pipe[0], POLLIN, 0};
  g_result = poll(&fd, 1, timeout_ms());
}
static void do_ppoll(void) {
  struct pollfd fd = {g_pipe[0], POLLIN, 0};
  const struct timespec time = {g_for_ever ? 1000 : 0, 20000000};
  g_result = ppoll(&fd, 1, &time, NULL);
}
static void do_select(void) {
  struct timeval time = {g_for_ever ? 1000 : 0, 20000};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(g_pipe[0], &set);
  g_result = select(g_pipe[0] + 1, &set, NULL, NULL, &time);
}
static void do_pselect(void) {
  const struct timespec time = {g_for_ever ? 1000 : 0, 20000000};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(g_pipe[0], &set);
  g_result = pselect(g_pipe[0] + 1, &set, NULL, NULL, &time, NULL);
}
static void wait_on_epoll(int with_mask) {
  struct epoll_event event = {EPOLLIN, {0}};
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  epoll_ctl(fd, EPOLL_CTL_ADD, g_pipe[0], &event);
  g_result =
      with_mask ? epoll_pwait(fd, &event, 1, timeout_ms(), NULL) : epoll_wait(fd, &event, 1, timeout_ms());
  const int error = errno;
  close(fd);
  errno = error;
}
static void do_epoll_wait(void) {
  wait_on_epoll(0);
}
static void do_epoll_pwait(void) {
  wait_on_epoll(1);
}
static void do_nanosleep(void) {
  const struct timespec time = {g_for_ever ? 1000 : 0, 20000000};
  g_result = nanosleep(&time, NULL);
}
static void do_clock_nanosleep(void) {
  const struct timespec time = {g_for_ever ? 1000 : 0, 20000000};
  g_result = clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}
static void do_usleep(void) {
  g_result = usleep(g_for_ever ? 999999 : 20000);
}
static void do_sleep(void) {
  g_result = sleep(g_for_ever ? 1000 : 1);
}
static void do_waitpid(void) {
  g_child = fork();
  if (g_child == 0) {
    nap(NULL);
    _exit(3);
  }
  int status = 0;
  g_result = waitpid(g_child, &status, 0) == g_child ? WEXITSTATUS(status) : -1;
}
static void do_read(void) {
  g_result = read(g_pipe[0], g_buffer, 1);
}
static void do_readv(void) {
  const struct iovec to = {g_buffer, 1};
  g_result = readv(g_pipe[0], &to, 1);
}
static void do_fread(void) {  // all but the last byte is there
  if (write(g_pipe[1], g_large, sizeof g_large - 1) != sizeof g_large - 1) abort();
  FILE* file = fdopen(dup(g_pipe[0]), "r");
  g_result = (long)fread(g_large, 1, sizeof g_large, file);
  if (!g_for_ever) fclose(file);
}
static void do_recv(void) {
  g_result = recv(g_socket[0], g_buffer, 1, 0);
}
static void do_recvfrom(void) {
  g_result = recvfrom(g_socket[0], g_buffer, 1, 0, NULL, NULL);
}
static void do_recvmsg(void) {
  struct iovec to = {g_buffer, 1};
  struct msghdr message = {.msg_iov = &to, .msg_iovlen = 1};
  g_result = recvmsg(g_socket[0], &message, 0);
}
static void do_bad_read(void) {
  g_result = read(-1, g_buffer, 1);
}
static void do_bad_open(void) {
  g_result = open("/nonexistent", O_RDONLY);
}
static void do_bad_sem(void) {
  const struct timespec wrong = {0, -1};
  g_result = sem_timedwait(&g_sem, &wrong);
}

static const struct {
  const char* name;
  void (*run)(void);
  int needs_poke;
  int blocks;
} kWaits[] = {
    {"sem_wait", do_sem_wait, 1, 1},
    {"sem_timedwait", do_sem_timedwait, 0, 1},
    {"sem_clockwait", do_sem_clockwait, 0, 1},
    {"pthread_cond_wait", do_cond_wait, 1, 1},
    {"pthread_cond_timedwait", do_cond_timedwait, 0, 1},
    {"pthread_cond_clockwait", do_cond_clockwait, 0, 1},
    {"pthread_join", do_join, 0, 1},
    {"poll", do_poll, 0, 1},
    {"ppoll", do_ppoll, 0, 1},
    {"select", do_select, 0, 1},
    {"pselect", do_pselect, 0, 1},
    {"epoll_wait", do_epoll_wait, 0, 1},
    {"epoll_pwait", do_epoll_pwait, 0, 1},
    {"nanosleep", do_nanosleep, 0, 1},
    {"clock_nanosleep", do_clock_nanosleep, 0, 1},
    {"usleep", do_usleep, 0, 1},
    {"sleep", do_sleep, 0, 1},
    {"waitpid", do_waitpid, 0, 1},
    {"read", do_read, 1, 1},
    {"readv", do_readv, 1, 1},
    {"fread", do_fread, 1, 1},
    {"recv", do_recv, 1, 1},
    {"recvfrom", do_recvfrom, 1, 1},
    {"recvmsg", do_recvmsg, 1, 1},
    {"read of no descriptor", do_bad_read, 0, 0},
    {"open of no file", do_bad_open, 0, 0},
    {"sem_timedwait with no time", do_bad_sem, 0, 0},
};
enum { kWaitCount = sizeof kWaits / sizeof kWaits[0] };

static void fresh_objects(void) {
  sem_init(&g_sem, 0, 0);
  if (pipe(g_pipe) || socketpair(AF_UNIX, SOCK_STREAM, 0, g_socket)) abort();
}

static void close_objects(void) {
  for (int i = 0; i < 2; ++i) {
    close(g_pipe[i]);
    close(g_socket[i]);
  }
}

static void run_each(void) {
  for (int i = 0; i < kWaitCount; ++i) {
    fresh_objects();
    pthread_t helper;
    if (kWaits[i].needs_poke) pthread_create(&helper, NULL, poke, NULL);
    errno = 0;
    kWaits[i].run();
    printf("%s: %ld, errno %d\n", kWaits[i].name, g_result, errno);
    if (kWaits[i].needs_poke) pthread_join(helper, NULL);
    close_objects();
  }
}

static void* run_one(void* index) {
  kWaits[(long)index].run();
  return NULL;
}

static void cancel_each(void) {
  g_for_ever = 1;
  for (long i = 0; i < kWaitCount; ++i) {
    if (!kWaits[i].blocks) continue;
    fresh_objects();
    pthread_t thread;
    pthread_create(&thread, NULL, run_one, (void*)i);
    usleep(5000);
    pthread_cancel(thread);
    void* result = NULL;
    pthread_join(thread, &result);
    printf("%s: %s\n", kWaits[i].name, result == PTHREAD_CANCELED ? "cancelled" : "returned");
    fflush(stdout);
    close_objects();
    if (g_child) kill(g_child, SIGKILL);
    g_child = 0;
  }
  become_a_job();  // the rest of the process still works and is still recorded
}

static void* wait_for_ever(void* unused) {
  sem_wait(&g_sem);
  return unused;
}

int main(int argc, char** argv) {
  become_a_job();
  if (argc == 1) run_each();
  if (argc > 1 && strcmp(argv[1], "cancel") == 0) cancel_each();
  if (argc > 1 && strcmp(argv[1], "hang") == 0) {
    pthread_t thread;
    fresh_objects();
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    usleep(50000);
    puts("waiting");
    fflush(stdout);
    poll(NULL, 0, -1);
  }
  return 0;
}
