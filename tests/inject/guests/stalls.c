// SPDX-License-Identifier: Apache-2.0
// Waits of 5 ms on a condition, some functions deep, in a program that keeps no frame pointers.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "fake_cudart.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_ready;

static void* produce(void* unused) {
  usleep(5000);
  pthread_mutex_lock(&mutex);
  is_ready = 1;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
  return unused;
}

__attribute__((noinline)) void wait_for_batch(void) {
  pthread_mutex_lock(&mutex);
  while (!is_ready) pthread_cond_wait(&changed, &mutex);
  is_ready = 0;
  pthread_mutex_unlock(&mutex);
}

__attribute__((noinline)) void train_step(int step) {
  wait_for_batch();
  cudaDeviceSynchronize();
  if (step < 0) puts("never");  // no tail call
}

int main(void) {
  become_a_job();
  for (int step = 0; step < 10; ++step) {
    pthread_t producer;
    pthread_create(&producer, NULL, produce, NULL);
    train_step(step);
    pthread_join(producer, NULL);
  }
  puts("done");
  return 0;
}
