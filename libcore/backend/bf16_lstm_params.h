#pragma once
// What RecurrentTable::lstm of bf16 is given on the host: a layer with the products of its input, all of them of bf16
// and summed in f32. h is rounded at every step; c, the gates and what the gradient needs are f32. The slot is null
// where the processor has no tiles for them. Thread safety: plain values. Use: core::Bf16LstmParams params{{sizes,
// w_hh, h0, c0, gates, cells, tanhs, hidden}, width, x, w_ih, b_ih, b_hh, y, c};

#include <cstdint>

#include "libcore/backend/recurrent_table.h"

namespace core {

/// Of the base's arrays w_hh, h0 and c0 are bf16, and the others f32: gates on return alone, all of them null where
/// nobody wants a gradient. What follows is bf16 but for c.
struct Bf16LstmParams : LstmParams {
  std::int64_t input;
  const void* x;            ///< (steps, batch, input)
  const void* w_ih;         ///< (4 * hidden, input)
  const void *b_ih, *b_hh;  ///< (4 * hidden), or null
  void* y;                  ///< (steps, batch, hidden): h
  float* c;                 ///< (batch, hidden): of the last step
};

}  // namespace core
