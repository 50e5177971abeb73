#pragma once
// What launch.cu needs of the active device, without its class: compiled by nvcc and by the C++ compiler alike.
// Thread safety: acts on what the calling thread has made active. Use: gpu::active_stream().

#include <cstddef>

namespace core::gpu {

void* active_stream();
void* allocate_scratch(std::size_t bytes);
void free_scratch(void* data, std::size_t bytes) noexcept;
int* active_assert_flag();
/// Throws what the last launch of this thread went wrong with.
void check_last_launch();

}  // namespace core::gpu
