// SPDX-License-Identifier: Apache-2.0
// processes <what>: ways to make processes and to end them, from a process that is being recorded.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_cudart.h"

extern char** environ;

static void report(const char* what, pid_t child) {
  int status = 0;
  const pid_t got = waitpid(child, &status, 0);
  printf("%s: %s %d\n", what, got == child ? (WIFEXITED(status) ? "exit" : "signal") : "lost",
         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  fflush(stdout);
}

static void fork_and_work(void) {
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 5; ++i) usleep(2000);
    become_a_job();
    exit(4);
  }
  report("fork", child);
}

static void fork_and_quick_exit(void) {
  const pid_t child = fork();
  if (child == 0) {
    usleep(2000);
    _exit(7);
  }
  report("_exit", child);
}

// Past libc: no fork handlers run, and libc's cached ids are stale.
static void raw_fork(void) {
  const pid_t child = (pid_t)syscall(SYS_fork);
  if (child == 0) {
    usleep(2000);
    become_a_job();
    _exit(5);
  }
  report("raw fork", child);
}

static void vfork_and_exec(void) {
  const pid_t child = vfork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "exit 9", NULL);
    _exit(127);
  }
  report("vfork, exec", child);
  const pid_t failing = vfork();
  if (failing == 0) {
    execl("/nonexistent", "x", NULL);
    _exit(126);
  }
  report("vfork, failed exec", failing);
}

static void spawn(void) {
  char* arguments[] = {"sh", "-c", "read line; echo got $line", NULL};
  int ends[2];
  if (pipe(ends) || write(ends[1], "input\n", 6) != 6) abort();
  close(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
  pid_t child;
  fflush(stdout);
  if (posix_spawnp(&child, "sh", &actions, NULL, arguments, environ) != 0) abort();
  close(ends[0]);
  report("posix_spawn", child);
}

static void daemonize(void) {
  int ends[2];
  if (pipe(ends)) abort();
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    if (chdir("/") != 0) _exit(1);
    close(0);
    usleep(5000);
    become_a_job();
    if (write(ends[1], "daemon\n", 7) != 7) _exit(1);
    _exit(0);
  }
  report("first child", child);
  char line[8] = "";
  if (read(ends[0], line, 7) == 7) printf("from the %s", line);
}

// A job that tidies up "leaked" descriptors must not hit ours, nor we its new ones.
static void close_descriptors(void) {
  become_a_job();
  for (int fd = 3; fd < 256; ++fd) close(fd);
  const int fd = open("/dev/null", O_WRONLY);
  printf("next descriptor: %d\n", fd);
  become_a_job();
  usleep(2000);
  printf("still ours: %d\n", fcntl(fd, F_GETFD) >= 0);
}

// Each child is the next one's parent and passes its exit code on.
static void many_generations(void) {
  for (int depth = 0; depth < 12; ++depth) {
    become_a_job();
    const pid_t child = fork();
    if (child == 0) continue;
    int status;
    waitpid(child, &status, 0);
    exit(WEXITSTATUS(status));
  }
  exit(11);
}

static int limited(int resource, rlim_t value) {
  const struct rlimit limit = {value, value};
  if (setrlimit(resource, &limit) != 0) return 1;
  for (int i = 0; i < 3; ++i) {
    become_a_job();
    usleep(2000);
  }
  FILE* own = tmpfile();
  printf("own file: %s\n", own && fputs("data", own) >= 0 && fflush(own) == 0 ? "written" : "not written");
  return 0;
}

static void* short_life(void* unused) {
  usleep(100);
  return unused;
}

// More pages than are reserved at the start: the file has to grow for these.
static void use_pages(void) {
  for (int i = 0; i < 1200; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, short_life, NULL) == 0) pthread_join(thread, NULL);
  }
}

static void close_from_3(void) {
  for (int fd = 3; fd < 1024; ++fd) close(fd);
}

// A child brings trouble upon itself and goes on working; so does its parent, afterwards.
static int troubled_child(const char* trouble) {
  const pid_t child = fork();
  if (child == 0) {
    const struct rlimit four_files = {4, 4}, one_mib = {1 << 20, 1 << 20};
    if (strcmp(trouble, "fsize") == 0) setrlimit(RLIMIT_FSIZE, &one_mib);
    if (strcmp(trouble, "fsize") != 0) close_from_3();
    if (strcmp(trouble, "daemon") == 0 && chdir("/") != 0) _exit(1);
    if (strcmp(trouble, "nofile") == 0) setrlimit(RLIMIT_NOFILE, &four_files);
    if (strcmp(trouble, "nofile") == 0) open("/dev/null", O_RDONLY);
    if (strcmp(trouble, "user") == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(1);
    use_pages();
    _exit(3);
  }
  report(trouble, child);
  for (int i = 0; i < 2000; ++i) become_a_job();
  return 0;
}

// Parent and child are busy at the same time.
static int two_at_once(void) {
  const pid_t child = fork();
  for (int i = 0; i < 2000; ++i) become_a_job();
  if (child == 0) _exit(3);
  report("fork", child);
  return 0;
}

// Children that read a little and are gone, as those of subprocess are.
static int idle_children(void) {
  const int null = open("/dev/null", O_RDONLY);
  for (int i = 0; i < 500; ++i) {
    const pid_t child = fork();
    char byte;
    if (child == 0) _exit(pread(null, &byte, 1, 0) == 0 ? 0 : 1);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "all";
  if (strcmp(what, "file-size-limit") == 0) return limited(RLIMIT_FSIZE, 64 << 10);
  if (strcmp(what, "address-space-limit") == 0) return limited(RLIMIT_AS, 16 << 20);
  if (strcmp(what, "descriptor-limit") == 0) return limited(RLIMIT_NOFILE, 4);
  if (strcmp(what, "close-descriptors") == 0) return close_descriptors(), 0;
  if (strcmp(what, "daemon") == 0) return daemonize(), 0;
  become_a_job();
  if (strcmp(what, "idle-children") == 0) return idle_children();
  if (strcmp(what, "two-at-once") == 0) return two_at_once();
  if (strcmp(what, "troubled-child") == 0) return troubled_child(argv[2]);
  if (strcmp(what, "generations") == 0) many_generations();
  if (strcmp(what, "quick-exit") == 0) _exit(23);
  if (strcmp(what, "abort") == 0) abort();
  fork_and_work();
  fork_and_quick_exit();
  raw_fork();
  vfork_and_exec();
  spawn();
  return 42;
}
