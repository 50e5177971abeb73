#include "tests/libcore/backend/cuda/cudnn_layer_formulas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "libcore/base/half.h"

namespace test {
namespace {

constexpr int kDouble = 1, kHalf = 2, kBfloat16 = 9;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

std::size_t size(int value) {
  return static_cast<std::size_t>(value);
}

/// Sum over the columns of row k of a matrix.
double product(const std::vector<double>& matrix, std::size_t k, const double* vector, std::size_t columns) {
  double sum = 0;
  for (std::size_t j = 0; j < columns; ++j) sum += matrix[k * columns + j] * vector[j];
  return sum;
}

/// The sums of unit k of one row, by gate: from the input and from the state.
struct Sums {
  std::array<double, 4> x{}, h{};
};

Sums sums_of(const FakeLayer& s, const FakeWeights& w, std::size_t k, const double* x, const double* h) {
  Sums sums;
  const std::size_t gates = size(s.gates());
  for (std::size_t g = 0; g < gates; ++g) {
    sums.x[g] = product(w.matrices[g], k, x, size(s.input)) + w.biases[g][k];
    sums.h[g] = product(w.matrices[gates + g], k, h, size(s.hidden)) + w.biases[gates + g][k];
  }
  return sums;
}

/// One unit: the new h (and c), and its trace. GRU: the bias of the state's part stands inside the reset gate's
/// product.
double unit(FakeCell cell, const Sums& sum, double h, double& c, double* trace) {
  if (cell == FakeCell::relu) return trace[0] = std::max(0.0, sum.x[0] + sum.h[0]);
  if (cell == FakeCell::tanh) return trace[0] = std::tanh(sum.x[0] + sum.h[0]);
  if (cell == FakeCell::gru) {
    const double reset = sigmoid(sum.x[0] + sum.h[0]), update = sigmoid(sum.x[1] + sum.h[1]);
    const double fresh = std::tanh(sum.x[2] + reset * sum.h[2]);
    trace[0] = reset, trace[1] = update, trace[2] = fresh, trace[3] = sum.h[2], trace[4] = h;
    return (1 - update) * fresh + update * h;
  }
  const double in = sigmoid(sum.x[0] + sum.h[0]), forget = sigmoid(sum.x[1] + sum.h[1]);
  const double fresh = std::tanh(sum.x[2] + sum.h[2]), out = sigmoid(sum.x[3] + sum.h[3]);
  trace[0] = in, trace[1] = forget, trace[2] = fresh, trace[3] = out, trace[4] = c;
  c = forget * c + in * fresh;
  trace[5] = c;
  return out * std::tanh(c);
}

/// Puts the gradients of one unit's sums into its trace: a number a gate, for a GRU's state part of the fresh one a
/// fourth. d: of the unit's h. What goes straight to the h before.
double unit_grad(FakeCell cell, double d, double& dc, double* trace) {
  const std::array<double, kTraceWidth> t{trace[0], trace[1], trace[2], trace[3], trace[4], trace[5]};
  if (cell == FakeCell::relu || cell == FakeCell::tanh) {
    trace[0] = cell == FakeCell::relu ? (t[0] > 0 ? d : 0) : d * (1 - t[0] * t[0]);
    return 0;
  }
  if (cell == FakeCell::gru) {
    const double of_fresh = d * (1 - t[1]) * (1 - t[2] * t[2]);
    trace[0] = of_fresh * t[3] * t[0] * (1 - t[0]);
    trace[1] = d * (t[4] - t[2]) * t[1] * (1 - t[1]);
    trace[2] = of_fresh;
    trace[3] = of_fresh * t[0];
    return d * t[1];
  }
  const double bent = std::tanh(t[5]);
  dc += d * t[3] * (1 - bent * bent);
  trace[0] = dc * t[2] * t[0] * (1 - t[0]);
  trace[1] = dc * t[4] * t[1] * (1 - t[1]);
  trace[2] = dc * t[0] * (1 - t[2] * t[2]);
  trace[3] = d * bent * t[3] * (1 - t[3]);
  dc *= t[1];
  return 0;
}

/// The gradient of gate g's sum, from the input or from the state.
double sum_grad(const FakeLayer& s, const double* trace, std::size_t g, bool of_state) {
  return trace[of_state && s.cell == FakeCell::gru && g == 2 ? 3 : g];
}

}  // namespace

FakeWeights::FakeWeights(const FakeLayer& layer) {
  const std::size_t hidden = size(layer.hidden), gates = size(layer.gates());
  matrices.assign(gates, std::vector<double>(hidden * size(layer.input)));
  matrices.insert(matrices.end(), gates, std::vector<double>(hidden * hidden));
  biases.assign(2 * gates, std::vector<double>(hidden));
}

double load(int type, const void* data, std::size_t at) {
  if (type == kDouble) return static_cast<const double*>(data)[at];
  if (type == kHalf) return core::f16_to_f32(static_cast<const std::uint16_t*>(data)[at]);
  if (type == kBfloat16) return core::bf16_to_f32(static_cast<const std::uint16_t*>(data)[at]);
  return static_cast<const float*>(data)[at];
}

void store(int type, void* data, std::size_t at, double value) {
  if (type == kDouble) {
    static_cast<double*>(data)[at] = value;
  } else if (type == kHalf) {
    static_cast<std::uint16_t*>(data)[at] = core::f64_to_f16(value);
  } else if (type == kBfloat16) {
    static_cast<std::uint16_t*>(data)[at] = core::f32_to_bf16(static_cast<float>(value));
  } else {
    static_cast<float*>(data)[at] = static_cast<float>(value);
  }
}

std::vector<double> fake_forward(const FakeLayer& s, const FakeWeights& w, const std::vector<double>& x,
                                 FakeStates& states, std::vector<double>& trace) {
  const std::size_t hidden = size(s.hidden), rows = size(s.batch);
  std::vector<double> y;
  trace.assign(size(s.steps) * s.states() * kTraceWidth, 0);
  for (std::size_t step = 0; step < size(s.steps); ++step) {
    const std::vector<double> before = states.h;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t k = 0; k < hidden; ++k) {
        const std::size_t at = row * hidden + k;
        const Sums sums = sums_of(s, w, k, &x[(step * rows + row) * size(s.input)], &before[row * hidden]);
        double* kept = &trace[(step * s.states() + at) * kTraceWidth];
        states.h[at] = unit(s.cell, sums, before[at], states.c[at], kept);
      }
    }
    y.insert(y.end(), states.h.begin(), states.h.end());
  }
  return y;
}

std::vector<double> fake_data_grad(const FakeLayer& s, const FakeWeights& w, const std::vector<double>& y_grad,
                                   FakeStates& grads, double* trace) {
  const std::size_t hidden = size(s.hidden), gates = size(s.gates()), inputs = size(s.input);
  std::vector<double> x_grad(s.inputs());
  for (std::size_t step = size(s.steps); step-- > 0;) {
    std::vector<double> earlier(s.states());
    for (std::size_t at = 0; at < s.states(); ++at) {
      const std::size_t row = at / hidden, k = at % hidden;
      double* kept = trace + (step * s.states() + at) * kTraceWidth;
      earlier[at] += unit_grad(s.cell, grads.h[at] + y_grad[step * s.states() + at], grads.c[at], kept);
      for (std::size_t g = 0; g < gates; ++g) {
        const double from_x = sum_grad(s, kept, g, false), from_h = sum_grad(s, kept, g, true);
        for (std::size_t j = 0; j < inputs; ++j) {
          x_grad[(step * size(s.batch) + row) * inputs + j] += from_x * w.matrices[g][k * inputs + j];
        }
        for (std::size_t j = 0; j < hidden; ++j) {
          earlier[row * hidden + j] += from_h * w.matrices[gates + g][k * hidden + j];
        }
      }
    }
    grads.h = earlier;
  }
  return x_grad;
}

FakeWeights fake_weight_grad(const FakeLayer& s, const std::vector<double>& x, const std::vector<double>& h0,
                             const std::vector<double>& y, const double* trace) {
  const std::size_t hidden = size(s.hidden), gates = size(s.gates()), inputs = size(s.input);
  FakeWeights out(s);
  for (std::size_t step = 0; step < size(s.steps); ++step) {
    const double* before = step == 0 ? h0.data() : &y[(step - 1) * s.states()];
    for (std::size_t at = 0; at < s.states(); ++at) {
      const std::size_t row = at / hidden, k = at % hidden;
      const double* kept = trace + (step * s.states() + at) * kTraceWidth;
      const double* now = &x[(step * size(s.batch) + row) * inputs];
      for (std::size_t g = 0; g < gates; ++g) {
        const double from_x = sum_grad(s, kept, g, false), from_h = sum_grad(s, kept, g, true);
        for (std::size_t j = 0; j < inputs; ++j) out.matrices[g][k * inputs + j] += from_x * now[j];
        for (std::size_t j = 0; j < hidden; ++j) {
          out.matrices[gates + g][k * hidden + j] += from_h * before[row * hidden + j];
        }
        out.biases[g][k] += from_x;
        out.biases[gates + g][k] += from_h;
      }
    }
  }
  return out;
}

}  // namespace test
