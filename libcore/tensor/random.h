#pragma once
// Random tensors, as torch's functions of the same names and with the same bits. On CUDA devices these are the bits of
// a GPU of 132 multiprocessors (H100, H200), but for the last places of logarithms, sines and tangents that PyTorch
// takes from approximations of the hardware (libcore/backend/random_arithmetic.h): exponential_, geometric_, cauchy_,
// normal_ and log_normal_ off such a GPU. Sums of weights in multinomial with replacement may differ in theirs too.
// Thread safety: each call locks the generator it draws from. Without one, that of the tensor's device (generator.h).
// Use: core::manual_seed(0); core::Tensor x = core::randn({100, 5}); core::uniform_(x, -1, 1);

#include <concepts>
#include <cstdint>
#include <optional>

#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct RandomOptions {
  std::optional<DType> dtype = {};  ///< default_dtype(); int64 for randint and randperm
  std::optional<Device> device = {};
  std::optional<Generator> generator = {};
  bool requires_grad = false;
};

/// [0, 1).
Tensor rand(const Shape& sizes, const RandomOptions& options = {});
/// Mean 0, standard deviation 1.
Tensor randn(const Shape& sizes, const RandomOptions& options = {});
/// Sizes one by one: randn(2, 3).
template <std::integral... N>
requires(sizeof...(N) > 1) Tensor rand(N... sizes) {
  return rand(Shape{static_cast<std::int64_t>(sizes)...});
}
template <std::integral... N>
requires(sizeof...(N) > 1) Tensor randn(N... sizes) {
  return randn(Shape{static_cast<std::int64_t>(sizes)...});
}
/// Integers from low to high - 1. Error "random_ expects 'from' to be less than 'to', but got from=5 >= to=5".
Tensor randint(std::int64_t low, std::int64_t high, const Shape& sizes, const RandomOptions& options = {});
Tensor randint(std::int64_t high, const Shape& sizes, const RandomOptions& options = {});
/// 0 .. n-1 in random order.
Tensor randperm(std::int64_t n, const RandomOptions& options = {});
Tensor rand_like(const Tensor& like, const RandomOptions& options = {});
Tensor randn_like(const Tensor& like, const RandomOptions& options = {});
/// randint() in the sizes and the dtype of `like`.
Tensor randint_like(const Tensor& like, std::int64_t low, std::int64_t high, const RandomOptions& options = {});
Tensor randint_like(const Tensor& like, std::int64_t high, const RandomOptions& options = {});
/// One value for each pair of mean and standard deviation; shapes broadcast.
Tensor normal(const Tensor& mean, const Tensor& std, const std::optional<Generator>& generator = {});
/// 1 with the probability that stands in each element, else 0.
Tensor bernoulli(const Tensor& probabilities, const std::optional<Generator>& generator = {});

struct MultinomialOptions {
  std::int64_t num_samples = 1;
  bool replacement = false;
  std::optional<Generator> generator = {};
};
/// Indices drawn with probabilities in proportion to `weights` (n) or, row by row, (m, n). int64 (num_samples) or (m,
/// ...).
Tensor multinomial(const Tensor& weights, const MultinomialOptions& options);

// In place; each returns its first argument. Errors: PyTorch's texts for parameters out of range.

const Tensor& uniform_(const Tensor& x, double from = 0, double to = 1, const std::optional<Generator>& generator = {});
const Tensor& normal_(const Tensor& x, double mean = 0, double std = 1, const std::optional<Generator>& generator = {});
const Tensor& bernoulli_(const Tensor& x, double p = 0.5, const std::optional<Generator>& generator = {});
const Tensor& exponential_(const Tensor& x, double lambda = 1, const std::optional<Generator>& generator = {});
const Tensor& geometric_(const Tensor& x, double p, const std::optional<Generator>& generator = {});
const Tensor& log_normal_(const Tensor& x, double mean = 1, double std = 2,
                          const std::optional<Generator>& generator = {});
const Tensor& cauchy_(const Tensor& x, double median = 0, double sigma = 1,
                      const std::optional<Generator>& generator = {});
struct TruncatedNormal {
  double mean = 0;
  double std = 1;
  double low = -2;
  double high = 2;
};
/// Normal values in [low, high], as torch.nn.init.trunc_normal_: what falls outside is drawn again. No history.
const Tensor& trunc_normal_(const Tensor& x, const TruncatedNormal& shape = {},
                            const std::optional<Generator>& generator = {});
/// The integers that the dtype holds exactly, from 0.
const Tensor& random_(const Tensor& x, const std::optional<Generator>& generator = {});
/// from .. to - 1.
const Tensor& random_(const Tensor& x, std::int64_t from, std::int64_t to,
                      const std::optional<Generator>& generator = {});

}  // namespace core
