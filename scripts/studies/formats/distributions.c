// Writes a log and percentile distributions with HdrHistogram for C.   distributions DIRECTORY
//
// Prints the values that the library's own functions find, as JSON lines. The log is in microseconds, and the distributions are scaled
// to milliseconds, as the library's examples do.
#include <hdr/hdr_histogram.h>
#include <hdr/hdr_histogram_log.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The library of a newer Debian needs these names of a newer C library.
long __isoc23_strtol(const char *text, char **end, int base) { return strtol(text, end, base); }
int __isoc23_sscanf(const char *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int found = vsscanf(text, format, arguments);
  va_end(arguments);
  return found;
}

static uint64_t state = 7;

// Returns pseudo-random numbers below a bound, the same ones in every run.
static int64_t draw(int64_t bound) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)bound);
}

static void fill(struct hdr_histogram *histogram, int64_t scale, int count) {
  for (int i = 0; i < count; i++) {
    hdr_record_value(histogram, scale / 2 + draw(scale) + (draw(50) == 0 ? 10 * draw(scale) : 0));
  }
}

static FILE *open_file(const char *directory, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "w");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  return file;
}

static void write_log(const char *directory) {
  FILE *file = open_file(directory, "c-0.11.8.hlog");
  struct hdr_log_writer writer;
  hdr_log_writer_init(&writer);
  hdr_timespec start = {.tv_sec = 1700000000, .tv_nsec = 0};
  hdr_log_write_header(&writer, file, "[Written by a service in C]", &start);
  for (int second = 0; second < 3; second++) {
    struct hdr_histogram *histogram;
    hdr_init(1, INT64_C(3600000000), 3, &histogram);
    fill(histogram, 300, 400);
    hdr_timespec begin = {.tv_sec = 1700000000 + second}, end = {.tv_sec = 1700000001 + second};
    hdr_log_write(&writer, file, &begin, &end, histogram);
    hdr_close(histogram);
  }
  fclose(file);
}

static void write_distribution(const char *directory, const char *name, format_type format) {
  FILE *file = open_file(directory, name);
  struct hdr_histogram *histogram;
  hdr_init(1, INT64_C(3600000000), 3, &histogram);
  fill(histogram, 40000, 5000);
  hdr_percentiles_print(histogram, file, 5, 1000.0, format);
  printf("{\"name\": \"%s\", \"unit\": \"ms\", \"scale\": 1000, \"count\": %" PRId64 ", \"mean\": %.6f, \"max\": %" PRId64
         ", \"p50\": %" PRId64 ", \"p90\": %" PRId64 ", \"p99\": %" PRId64 "}\n",
         name, histogram->total_count, hdr_mean(histogram), hdr_max(histogram), hdr_value_at_percentile(histogram, 50),
         hdr_value_at_percentile(histogram, 90), hdr_value_at_percentile(histogram, 99));
  hdr_close(histogram);
  fclose(file);
}

int main(int count, char **arguments) {
  if (count != 2) {
    return 2;
  }
  write_log(arguments[1]);
  write_distribution(arguments[1], "c-0.11.8.hgrm", CLASSIC);
  write_distribution(arguments[1], "c-0.11.8-csv.hgrm", CSV);
  return 0;
}
