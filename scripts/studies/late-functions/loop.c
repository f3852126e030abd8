/* A loop with the contract of measured programs, whose ticks are late in verify_image and in sort_queue. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

NOINLINE uint64_t checksum(const unsigned char *bytes, size_t length, int rounds) {
  uint64_t hash = 1469598103934665603ULL;
  for (int round = 0; round < rounds; round++)
    for (size_t i = 0; i < length; i++) hash = (hash ^ bytes[i]) * 1099511628211ULL;
  return hash;
}

NOINLINE uint64_t verify_image(int rounds) {
  static unsigned char image[4096];
  uint64_t sum = checksum(image, sizeof image, rounds);
  image[sum % 4096] = (unsigned char)sum;
  return sum;
}

static int compare(const void *a, const void *b) { return memcmp(a, b, 8); }

NOINLINE void sort_queue(int length) {
  uint64_t *queue = malloc(length * 8);
  for (int i = 0; i < length; i++) queue[i] = i * 0x9e3779b97f4a7c15ULL;
  qsort(queue, length, 8, compare);
  free(queue);
}

volatile uint64_t sink;

int main(void) {
  const char *text = getenv("OSJITTER_WARMUP");
  long period = atol(getenv("OSJITTER_PERIOD_NS")), ticks = atol(getenv("OSJITTER_TICKS")), warmup = text ? atol(text) : 0;
  FILE *out = fopen(getenv("OSJITTER_OUT"), "w");
  int with_times = getenv("OSJITTER_TIMES") != NULL;
  fprintf(out, "osjitter.series/1 period_ns=%ld\n", period);
  int64_t deadline = now_ns() + 2 * period;
  for (long tick = 0; tick < ticks + warmup; tick++, deadline += period) {
    struct timespec until = {deadline / 1000000000LL, deadline % 1000000000LL};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    int64_t wake = now_ns();
    if (tick >= warmup && with_times) fprintf(out, "%lld %lld\n", (long long)(wake - deadline), (long long)wake);
    if (tick >= warmup && !with_times) fprintf(out, "%lld\n", (long long)(wake - deadline));
    if (tick % 30 == 10) sink += verify_image(10000);
    if (tick % 30 == 25) sort_queue(500000);
  }
  fclose(out);
  return 0;
}
