#pragma once
// The random fills of host memory, by generator. Thread safety: called once, while the tables are made.
// Use: cpu::fill_mersenne(table);

#include "libcore/backend/random_table.h"

namespace core::cpu {

/// The numbers of the CPU: mersenne_fills.cpp.
void fill_mersenne(RandomTable& table);
/// The numbers of CUDA devices, for logical ones: philox_fills.cpp.
void fill_philox(RandomTable& table);

}  // namespace core::cpu
