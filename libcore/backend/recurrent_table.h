#pragma once
// The recurrent family of kernels: one direction of a layer over all its time steps in one call. Arrays are dense and
// row-major; the caller has checked sizes, dtypes and devices and allocated the outputs. The products of the input with
// its weights are the caller's: they have no order in time.
// Thread safety: parameters are plain values, the table is constant after start-up.
// Use: backend.ops().recurrent->lstm[dtype](core::LstmParams{...});

#include <array>
#include <cstdint>

#include "libcore/base/dtype.h"

namespace core {

/// Steps, rows of a step, width of the state. `reverse`: from the last step to the first.
struct RecurrentSizes {
  std::int64_t steps, batch, hidden;
  bool reverse;
};

/// Gates stand in PyTorch's order: input, forget, cell, output.
struct LstmParams {
  RecurrentSizes sizes;
  const void* w_hh;  ///< (4 * hidden, hidden)
  const void* h0;    ///< (batch, hidden), as c0
  const void* c0;
  void* gates;   ///< (steps, batch, 4 * hidden): sums from the input and both biases; on return the activated gates
  void* cells;   ///< (steps, batch, hidden), as the next two: c of every step
  void* tanhs;   ///< tanh(c)
  void* hidden;  ///< h
};

struct LstmGradParams {
  RecurrentSizes sizes;
  const void* w_hh;
  const void* c0;
  const void* gates;  ///< as LstmParams left them, as the next two
  const void* cells;
  const void* tanhs;
  const void* output_grad;  ///< (steps, batch, hidden), or null
  void* sums_grad;          ///< (steps, batch, 4 * hidden): the gradient of the gates' sums
  void* h_grad;             ///< (batch, hidden): of the last h; on return of the first
  void* c_grad;             ///< the same of c
};

/// By dtype of the data.
struct RecurrentTable {
  std::array<void (*)(const LstmParams&), kDTypeCount> lstm{};
  std::array<void (*)(const LstmGradParams&), kDTypeCount> lstm_grad{};
};

}  // namespace core
