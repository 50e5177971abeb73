#pragma once
// The formulas of cuDNN's documentation for one direction of a recurrent layer, in doubles, one row and unit at a time.
// Thread safety: pure functions. Use: y = test::fake_forward(layer, weights, x, states, trace);

#include <cstddef>
#include <vector>

namespace test {

/// cudnnRNNMode_t
enum class FakeCell { relu = 0, tanh = 1, lstm = 2, gru = 3 };

struct FakeLayer {
  FakeCell cell;
  bool has_bias;
  int input, hidden, steps, batch;

  int gates() const { return cell == FakeCell::lstm ? 4 : cell == FakeCell::gru ? 3 : 1; }
  std::size_t states() const { return static_cast<std::size_t>(batch) * static_cast<std::size_t>(hidden); }
  std::size_t inputs() const {
    return static_cast<std::size_t>(steps) * static_cast<std::size_t>(batch) * static_cast<std::size_t>(input);
  }
};

/// By number of the linear layer: those of the input, then those of the state.
struct FakeWeights {
  std::vector<std::vector<double>> matrices, biases;
  explicit FakeWeights(const FakeLayer& layer);
};

struct FakeStates {
  std::vector<double> h, c;
};

/// Numbers that forward keeps of each step, row and unit.
inline constexpr std::size_t kTraceWidth = 6;

/// Elements as cudnnDataType_t says.
double load(int type, const void* data, std::size_t at);
void store(int type, void* data, std::size_t at, double value);

/// y. `states`: the first ones; on return the last.
std::vector<double> fake_forward(const FakeLayer& s, const FakeWeights& w, const std::vector<double>& x,
                                 FakeStates& states, std::vector<double>& trace);
/// Of x. `grads`: of the last states; on return of the first. Leaves the gradients of the sums in the trace.
std::vector<double> fake_data_grad(const FakeLayer& s, const FakeWeights& w, const std::vector<double>& y_grad,
                                   FakeStates& grads, double* trace);
/// REQUIRES: a trace that fake_data_grad() changed.
FakeWeights fake_weight_grad(const FakeLayer& s, const std::vector<double>& x, const std::vector<double>& h0,
                             const std::vector<double>& y, const double* trace);

}  // namespace test
