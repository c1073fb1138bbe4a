//go:build ignore

// The wall clock of a process, moved by as many microseconds as the file CLOCK_OFFSET_US says, or
// stopped at the microsecond of 1970 that stands there behind an "=".
// Loaded by LD_PRELOAD into redis-server, which takes TIME and expiry from gettimeofday, and into nginx,
// whose workers have lost the variable: the path is kept from the first call on.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
  (void)tz;
  long long offset_us = 0, at_us = -1;
  static char path[4096];
  const char *named = path[0] ? NULL : getenv("CLOCK_OFFSET_US");
  if (named) snprintf(path, sizeof path, "%s", named);
  FILE *file = path[0] ? fopen(path, "r") : NULL;
  if (file) {
    if (fscanf(file, "=%lld", &at_us) != 1 && fscanf(file, "%lld", &offset_us) != 1) abort();
    fclose(file);
  }
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  long long us = now.tv_sec * 1000000LL + now.tv_nsec / 1000 + offset_us;
  if (at_us >= 0) us = at_us;
  tv->tv_sec = us / 1000000;
  tv->tv_usec = us % 1000000;
  return 0;
}
