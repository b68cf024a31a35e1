/* Preloaded into the program: a system that starts $FEW_THREADS threads of a process and no more,
   as at a limit of processes (ulimit -u, a container's pids); with a minus, all but that one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_long asked;

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* with) {
  int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      dlsym(RTLD_NEXT, "pthread_create");
  const char* text = getenv("FEW_THREADS");
  const long number = atomic_fetch_add(&asked, 1) + 1, few = text ? atol(text) : 1000000;
  if (few < 0 ? number == -few : number > few) return EAGAIN;
  return real(thread, attributes, run, with);
}
