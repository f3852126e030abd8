/* A preloaded library that lets a clock jump while a program runs. Clocks are read without a system call, so inject.c cannot
 * intercept the readings.
 *
 * CLOCK_JUMP is CLOCK:SECONDS:FROM. From the FROM-th reading on, SECONDS are added to the clock "realtime" or "boottime", like
 * a step of the wall clock, or the time for which the machine was suspended. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static clockid_t jumping = -1;
static long seconds, from;
static atomic_long reads;

__attribute__((constructor)) static void prepare(void) {
  char name[16] = "";
  const char *jump = getenv("CLOCK_JUMP");
  if (!jump || sscanf(jump, "%15[^:]:%ld:%ld", name, &seconds, &from) != 3) return;
  jumping = !strcmp(name, "boottime") ? CLOCK_BOOTTIME : !strcmp(name, "realtime") ? CLOCK_REALTIME : -1;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (!result && clock == jumping && atomic_fetch_add(&reads, 1) + 1 >= from) now->tv_sec += seconds;
  return result;
}
