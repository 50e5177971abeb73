// A shared object to preload: allocations, threads and processes that the system refuses, at places told by the
// environment. It counts from 1; what is not named never fails.
//   CKPT_FAIL_ALLOCATION=K         the K-th allocation fails; "K+" it and all behind it
//   CKPT_FAIL_THREADS=K            pthread_create fails from the K-th call on
//   CKPT_FAIL_PROCESSES=1          posix_spawn fails
//   CKPT_COUNT_ALLOCATIONS=FILE    the number of allocations goes there when the program ends by exit()

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* old, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

static atomic_long allocations;
static atomic_long threads;

static int must_fail(void) {
  static atomic_long from = -1;
  static atomic_int sticky;
  long k = atomic_load(&from);
  if (k < 0) {
    const char* text = getenv("CKPT_FAIL_ALLOCATION");
    char* end = NULL;
    k = text == NULL ? 0 : strtol(text, &end, 10);
    if (end != NULL && *end == '+') atomic_store(&sticky, 1);
    atomic_store(&from, k);
  }
  long now = atomic_fetch_add(&allocations, 1) + 1;
  return k > 0 && (now == k || (now > k && atomic_load(&sticky)));
}

static void* no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

void* malloc(size_t size) {
  return must_fail() ? no_memory() : __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  return must_fail() ? no_memory() : __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
  return must_fail() ? no_memory() : __libc_realloc(old, size);
}

void* memalign(size_t alignment, size_t size) {
  return must_fail() ? no_memory() : __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  void* block = memalign(alignment, size);
  if (block == NULL) return ENOMEM;
  *out = block;
  return 0;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  typedef int (*Create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  const char* from = getenv("CKPT_FAIL_THREADS");
  if (from != NULL && atomic_fetch_add(&threads, 1) + 1 >= atol(from)) return EAGAIN;
  return ((Create)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, body, argument);
}

typedef int (*Spawn)(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*,
                     char* const*);

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const argv[], char* const environment[]) {
  if (getenv("CKPT_FAIL_PROCESSES") != NULL) return EAGAIN;
  return ((Spawn)dlsym(RTLD_NEXT, "posix_spawn"))(pid, path, actions, attributes, argv, environment);
}

int posix_spawnp(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const argv[], char* const environment[]) {
  if (getenv("CKPT_FAIL_PROCESSES") != NULL) return EAGAIN;
  return ((Spawn)dlsym(RTLD_NEXT, "posix_spawnp"))(pid, path, actions, attributes, argv, environment);
}

__attribute__((destructor)) static void write_count(void) {
  const char* path = getenv("CKPT_COUNT_ALLOCATIONS");
  long count = atomic_load(&allocations);
  FILE* file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%ld\n", count);
  fclose(file);
}
