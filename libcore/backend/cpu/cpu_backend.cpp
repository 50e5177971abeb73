#include "libcore/backend/cpu/cpu_backend.h"

#include <cstring>

#include "libcore/backend/host_memory.h"

namespace core {

void* CpuBackend::allocate(std::size_t bytes) {
  return host_allocate(bytes);
}
void CpuBackend::free(void* data, std::size_t bytes) noexcept {
  host_free(data, bytes);
}
void CpuBackend::copy_from_host(void* to, const void* from, std::size_t bytes) {
  CpuBackend::copy_within(to, from, bytes);
}
void CpuBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  CpuBackend::copy_within(to, from, bytes);
}
void CpuBackend::copy_within(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memmove(to, from, bytes);
}
void CpuBackend::fill_zero(void* to, std::size_t bytes) {
  if (bytes != 0) std::memset(to, 0, bytes);
}

}  // namespace core
