// Memory for what is written in C: the linker leads every malloc, calloc, realloc and strdup of the archives that this
// program is made of here (--wrap). Some of those libraries, libhdf5 above all, do not come through a failed one: they
// crash, or take the input for damaged. Thread safety: all of it.

#include <cstddef>

#include "tools/ckpt/sudden_end.h"

namespace {

template <class T>
T* required(T* block) {
  if (block == nullptr) cli::end_out_of_memory();
  return block;
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the names that the linker asks for
extern "C" {
void* __real_malloc(std::size_t size);
void* __real_calloc(std::size_t count, std::size_t size);
void* __real_realloc(void* old, std::size_t size);
char* __real_strdup(const char* text);

void* __wrap_malloc(std::size_t size) {
  return required(__real_malloc(size));
}

void* __wrap_calloc(std::size_t count, std::size_t size) {
  return required(__real_calloc(count, size));
}

void* __wrap_realloc(void* old, std::size_t size) {
  return size == 0 ? __real_realloc(old, size) : required(__real_realloc(old, size));
}

char* __wrap_strdup(const char* text) {
  return required(__real_strdup(text));
}
}
// NOLINTEND(bugprone-reserved-identifier)
