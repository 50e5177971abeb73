#pragma once
// LSTM layers of bf16 by tiles (AMX), whose weights are packed once for all steps. REQUIRES: multiplies_tiles().
// Compiled for AVX-512 alone. Thread safety: called while the tables are made.
// Use: if (multiplies_tiles()) avx512::fill_bf16_lstm(recurrent);

#include "libcore/backend/recurrent_table.h"

namespace core::cpu::avx512 {

void fill_bf16_lstm(RecurrentTable& table);

}  // namespace core::cpu::avx512
