// For tests: replaces the allocation functions with versions that first call count_allocation(). Include it in one file
// of a test binary and define that function there.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

void count_allocation(std::size_t bytes, std::size_t alignment);  // alignment: from aligned_alloc, otherwise 0

// An allocation that the optimiser must not remove, to check that the hook counts it.
inline void allocate_once() {
  void* volatile memory = ::operator new(16);
  ::operator delete(memory);
}

// Sanitizers replace malloc themselves, so with a sanitizer only operator new is counted.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t bytes) {
  count_allocation(bytes, 0);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  count_allocation(n * bytes, 0);
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  count_allocation(bytes, 0);
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count_allocation(bytes, alignment);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  count_allocation(bytes, 0);
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
}
#else
void* operator new(std::size_t bytes) {
  count_allocation(bytes, 0);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {  // used by std::stable_sort
  count_allocation(bytes, 0);
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
