#include "libcore/tensor/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/random_table.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/device_assert.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/random_fill.h"
#include "libcore/tensor/random_on_device.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using detail::RandomFill;
using MaybeGenerator = std::optional<Generator>;

Generator generator_for(const Tensor& x, const MaybeGenerator& given) {
  if (!given) return default_generator(x.device());
  DeviceType wanted = x.device().type();
  if (given->device().type() != wanted) {
    throw Error(ErrorCode::runtime, "Expected a '" + std::string(name(wanted)) +
                                        "' device type for generator but found '" +
                                        std::string(name(given->device().type())) + "'");
  }
  return *given;
}

/// Fills a dense tensor by its device's kernel, or through a host copy where the device has none. Of complex numbers
/// both parts are drawn, of which each has half of the variance.
void fill_dense(const Tensor& x, const Generator& generator, const RandomFill& how) {
  const bool is_normal = how.op == RandomOp::normal || how.op == RandomOp::normal_serial;
  if (is_complex(x) && (is_normal || how.op == RandomOp::uniform)) {
    RandomFill of_parts = how;
    if (is_normal) of_parts.b /= std::numbers::sqrt2;
    return fill_dense(view_as_real(x), generator, of_parts);
  }
  if (detail::fill_on_device(x.device(), generator, {x.mutable_raw_data(), x.dtype(), x.numel()}, how)) return;
  const Tensor on_host = empty(x.sizes(), {.dtype = x.dtype(), .device = Device()});
  detail::fill_buffer(generator, {on_host.mutable_raw_data(), x.dtype(), x.numel()}, how);
  x.copy_(on_host);
}

/// Fills any tensor in place. Tensors with history or gaps get their values through copy_, which checks and records.
const Tensor& fill_in_place(const Tensor& x, const MaybeGenerator& given, const RandomFill& how) {
  if (x.is_meta() || x.numel() == 0) return x;
  Generator generator = generator_for(x, given);
  if (x.is_contiguous() && !x.requires_grad()) {
    fill_dense(x, generator, how);
    x.impl()->bump_version();
    return x;
  }
  Tensor in_memory_order = x.permute(detail::memory_order(x));
  Tensor values = empty(in_memory_order.sizes(), {.dtype = x.dtype(), .device = x.device()});
  fill_dense(values, generator, how);
  if (x.is_contiguous()) return x.copy_(values);
  in_memory_order.copy_(values);
  return x;
}

/// A new tensor filled with what `how` says.
Tensor filled(const Shape& sizes, DType dtype, const RandomOptions& options, const RandomFill& how) {
  Tensor x = empty(sizes, {.dtype = dtype, .device = options.device});
  fill_in_place(x, options.generator, how);
  return options.requires_grad ? x.requires_grad_() : x;
}

void check(bool ok, const std::string& message) {
  if (!ok) throw Error(ErrorCode::runtime, message);
}

/// A number as a C++ stream prints it, which is what PyTorch's checks show: "-1", "1.5".
std::string number(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  return buffer;
}

const char* c_type_name(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::u8:
      return "unsigned char";
    case DType::i8:
      return "signed char";
    case DType::i16:
      return "short int";
    case DType::i32:
      return "int";
    case DType::u16:
      return "unsigned short";
    case DType::u32:
      return "unsigned int";
    case DType::u64:
      return "unsigned long";
    default:
      return "long";
  }
}

struct Limits {
  std::int64_t lowest;
  std::int64_t highest;
};

/// Limits of an integer dtype, as far as int64 reaches.
Limits integer_limits(DType dtype) {
  int bits = bit_width(dtype);
  if (dtype == DType::boolean) return {0, 1};
  bool is_unsigned = dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64;
  if (bits == 64)
    return {is_unsigned ? 0 : std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  if (is_unsigned) return {0, (std::int64_t{1} << bits) - 1};
  return {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
}

/// The distance of whole numbers of a floating type, as far from 0 as `at`.
std::int64_t step_at(std::int64_t at, int digits) {
  const int bits = std::bit_width(static_cast<std::uint64_t>(std::abs(at)));
  return std::int64_t{1} << std::max(0, bits - digits);
}

/// `x` as a number of a floating type of `digits` binary digits.
double rounded_to(std::int64_t x, int digits) {
  if (digits == std::numeric_limits<double>::digits) return static_cast<double>(x);
  const auto narrow = static_cast<float>(x);
  if (x == 0 || digits == std::numeric_limits<float>::digits) return narrow;
  const double step = std::ldexp(1.0, std::max(0, std::ilogb(narrow) + 1 - digits));
  return std::nearbyint(narrow / step) * step;
}

/// Bounds that a floating type has no numbers for move inward, by PyTorch's rule: which numbers are drawn depends on
/// it.
std::pair<std::int64_t, std::int64_t> bounds_in(DType dtype, std::int64_t from, std::int64_t to) {
  const int digits = dtype == DType::f64 ? 53 : dtype == DType::f32 ? 24 : dtype == DType::f16 ? 11 : 8;
  const double above = rounded_to(from + 1, digits), below = rounded_to(to - 1, digits);
  if (above < 0x1p63 && static_cast<std::int64_t>(above) < from) {
    from = static_cast<std::int64_t>(above) + step_at(from + 1, digits);
  }
  if (below < 0x1p63 && static_cast<std::int64_t>(below) >= to) {
    to = static_cast<std::int64_t>(below) - step_at(to - 1, digits);
  }
  return {from, to};
}

/// The bounds that numbers are drawn between.
std::pair<std::int64_t, std::int64_t> checked_range(DType dtype, std::int64_t from, std::int64_t to) {
  check(from < to, "random_ expects 'from' to be less than 'to', but got from=" + std::to_string(from) +
                       " >= to=" + std::to_string(to));
  if (is_floating(dtype)) {
    std::tie(from, to) = bounds_in(dtype, from, to);
    check(from < to, "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from=" +
                         std::to_string(from) + " >= to=" + std::to_string(to));
    constexpr std::int64_t kLargestHalf = 65504;
    if (dtype != DType::f16) return {from, to};
    check(from >= -kLargestHalf && from <= kLargestHalf, "from is out of bounds for c10::Half");
    check(to - 1 >= -kLargestHalf && to - 1 <= kLargestHalf, "to - 1 is out of bounds for c10::Half");
    return {from, to};
  }
  Limits limits = integer_limits(dtype);
  std::string type = c_type_name(dtype);
  check(from >= limits.lowest && from <= limits.highest, "from is out of bounds for " + type);
  check(to - 1 >= limits.lowest && to - 1 <= limits.highest, "to - 1 is out of bounds for " + type);
  return {from, to};
}

RandomFill integers_fill(DType dtype, std::int64_t first, std::int64_t end) {
  const auto [from, to] = checked_range(dtype, first, end);
  return {.op = RandomOp::integers,
          .from = from,
          .size = static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from)};
}

void check_weights(const Tensor& weights, const MultinomialOptions& options) {
  if (!weights.is_floating_point()) {
    throw Error(ErrorCode::runtime, std::string("multinomial only supports floating-point dtypes for input, got: ") +
                                        scalar_type_name(weights.dtype()));
  }
  check(weights.dim() == 1 || weights.dim() == 2, "prob_dist must be 1 or 2 dim");
  check(options.num_samples > 0, "cannot sample n_sample <= 0 samples");
  check(options.replacement || options.num_samples <= weights.size(-1),
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
}

/// Devices that assert later are not waited for: sampling words one by one would wait three times for each.
void check_distribution(const Tensor& weights) {
  const Tensor odd = logical_not(logical_and(ge(weights, 0), isfinite(weights)));
  const Tensor of_nothing = le(weights.sum(Shape{-1}), 0);
  if (detail::asserts_later(weights)) {
    detail::assert_none(odd);
    detail::assert_none(of_nothing);
    return;
  }
  check(!any(odd).item<bool>(), "probability tensor contains either `inf`, `nan` or element < 0");
  check(!any(of_nothing).item<bool>(), "invalid multinomial distribution (sum of probabilities <= 0)");
}

/// The largest of weight / exponential: PyTorch's rule for one sample and for samples without replacement.
Tensor largest_quotients(const Tensor& weights, const MultinomialOptions& options) {
  check_distribution(weights);
  Tensor waiting = empty_like(weights);
  exponential_(waiting, 1, options.generator);
  // In f16 a number below 2^-25 rounds to 0 on the CPU, and a weight of 0 divided by it would win.
  if (weights.dtype() == DType::f16) waiting = waiting.clamp(0x1p-24);
  Tensor quotients = weights.div(waiting);
  if (options.num_samples == 1) return quotients.argmax(-1, true);
  return topk(quotients, options.num_samples).indices;
}

/// Running sums of one row in T, the last one exactly 1.
template <class T>
std::vector<T> cumulated(const std::vector<T>& weights) {
  std::vector<T> sums;
  T sum = 0;
  for (T weight : weights) {
    check(weight >= 0, "invalid multinomial distribution (encountering probability entry < 0)");
    check(std::isfinite(weight), "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
    sum += weight;
    sums.push_back(sum);
  }
  check(sum > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  for (T& value : sums) value /= sum;
  if (!sums.empty()) sums.back() = 1;
  return sums;
}

/// Uniform numbers for all samples of a row: doubles in [0, 1) of the CPU, floats in (0, 1] of CUDA devices.
std::vector<double> sample_numbers(const Generator& generator, std::int64_t rows, std::int64_t samples) {
  const std::int64_t count = rows * samples;
  std::vector<double> drawn(static_cast<std::size_t>(count));
  if (generator.device().is_cpu()) {
    detail::fill_buffer(generator, {drawn.data(), DType::f64, count}, {RandomOp::uniform, 0, 1});
    return drawn;
  }
  std::vector<float> floats(static_cast<std::size_t>(count));
  detail::fill_buffer(generator, {floats.data(), DType::f32, count},
                      {.op = RandomOp::samples, .size = static_cast<std::uint64_t>(samples)});
  std::copy(floats.begin(), floats.end(), drawn.begin());
  return drawn;
}

template <class T>
Tensor draw_with_replacement(const Tensor& weights, const MultinomialOptions& options) {
  const Generator generator = generator_for(weights, options.generator);
  std::vector<T> all = weights.template to_vector<T>();
  std::int64_t categories = weights.size(-1);
  std::int64_t rows = weights.dim() == 2 ? weights.size(0) : 1;
  std::vector<std::vector<T>> sums;
  for (std::int64_t row = 0; row < rows; ++row) {
    auto begin = all.begin() + row * categories;
    sums.push_back(cumulated(std::vector<T>(begin, begin + categories)));
  }
  std::vector<std::int64_t> indices;
  const std::vector<double> drawn = sample_numbers(generator, rows, options.num_samples);
  for (std::int64_t i = 0; i < rows * options.num_samples; ++i) {
    const std::vector<T>& row = sums[static_cast<std::size_t>(i / options.num_samples)];
    auto at = std::lower_bound(row.begin(), row.end(), drawn[static_cast<std::size_t>(i)],
                               [](T sum, double value) { return sum < value; });
    indices.push_back(std::min(at - row.begin(), static_cast<std::ptrdiff_t>(categories - 1)));
  }
  Shape sizes = weights.dim() == 2 ? Shape{rows, options.num_samples} : Shape{options.num_samples};
  return from_values(std::span<const std::int64_t>(indices), sizes, {.device = weights.device()});
}

/// Devices that assert later compare where the probabilities lie.
bool has_bernoulli_kernel(const Tensor& p) {
  if (!is_floating(p.dtype()) || !detail::asserts_later(p)) return false;
  const RandomTable* table = backend_for(p.device()).ops().random;
  return table != nullptr && table->fill.at(RandomOp::bernoulli_each, p.dtype()) != nullptr;
}

void check_deviations(const Tensor& std) {
  if (std.is_meta() || std.numel() == 0) return;
  const Tensor odd = logical_not(ge(std, 0));
  if (detail::asserts_later(std)) return detail::assert_none(odd);
  check(!any(odd).item<bool>(), "normal expects all elements of std >= 0.0");
}

/// REQUIRES: p has elements.
void check_probabilities(const Tensor& p) {
  if (detail::asserts_later(p)) return detail::assert_none(logical_not(logical_and(ge(p, 0), le(p, 1))));
  check(all(ge(p, 0)).item<bool>() && all(le(p, 1)).item<bool>(),
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, "
        "please report an enhancement request to PyTorch.)");
  if (is_floating(p.dtype())) return;
  throw Error(ErrorCode::not_implemented,
              std::string("\"bernoulli_tensor_cpu_p_\" not implemented for '") + scalar_type_name(p.dtype()) + "'");
}

}  // namespace

Tensor rand(const Shape& sizes, const RandomOptions& options) {
  return filled(sizes, options.dtype.value_or(default_dtype()), options, {RandomOp::uniform, 0, 1});
}

Tensor randn(const Shape& sizes, const RandomOptions& options) {
  return filled(sizes, options.dtype.value_or(default_dtype()), options, {RandomOp::normal, 0, 1});
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& sizes, const RandomOptions& options) {
  DType dtype = options.dtype.value_or(DType::i64);
  return filled(sizes, dtype, options, integers_fill(dtype, low, high));
}

Tensor randint(std::int64_t high, const Shape& sizes, const RandomOptions& options) {
  return randint(0, high, sizes, options);
}

Tensor randperm(std::int64_t n, const RandomOptions& options) {
  DType dtype = options.dtype.value_or(DType::i64);
  if (dtype == DType::boolean) {
    throw Error(ErrorCode::not_implemented, "\"randperm\" not implemented for 'Bool'");
  }
  check(dtype != DType::f16 || n <= 2049, "n cannot be greater than 2049 for Half type.");
  bool fits = is_floating(dtype) || n - 1 <= integer_limits(dtype).highest;
  check(fits, "value cannot be converted to type " + std::string(name(dtype)) + "_t without overflow");
  return filled(Shape{n}, dtype, options, {RandomOp::permutation});
}

Tensor randint_like(const Tensor& like, std::int64_t low, std::int64_t high, const RandomOptions& options) {
  RandomOptions same = options;
  same.dtype = options.dtype.value_or(like.dtype());
  same.device = options.device.value_or(like.device());
  return randint(low, high, like.sizes(), same);
}

Tensor randint_like(const Tensor& like, std::int64_t high, const RandomOptions& options) {
  return randint_like(like, 0, high, options);
}

Tensor rand_like(const Tensor& like, const RandomOptions& options) {
  RandomOptions same = options;
  same.dtype = options.dtype.value_or(like.dtype());
  same.device = options.device.value_or(like.device());
  return rand(like.sizes(), same);
}

Tensor randn_like(const Tensor& like, const RandomOptions& options) {
  RandomOptions same = options;
  same.dtype = options.dtype.value_or(like.dtype());
  same.device = options.device.value_or(like.device());
  return randn(like.sizes(), same);
}

Tensor normal(const Tensor& mean, const Tensor& std, const std::optional<Generator>& generator) {
  check_deviations(std.detach());
  Tensor x = empty(broadcast_shapes(mean.sizes(), std.sizes()), {.dtype = mean.dtype(), .device = mean.device()});
  normal_(x, 0, 1, generator);
  return x.mul_(std.detach()).add_(mean.detach());
}

Tensor bernoulli(const Tensor& probabilities, const std::optional<Generator>& generator) {
  const bool on_device = has_bernoulli_kernel(probabilities);
  const Tensor p = on_device ? probabilities.detach() : probabilities.detach().cpu();
  if (p.numel() > 0) check_probabilities(p);
  const Tensor compared = p.to(p.dtype() == DType::f64 ? DType::f64 : DType::f32).contiguous();
  const Tensor out = empty(p.sizes(), {.dtype = p.dtype(), .device = probabilities.device()});
  return fill_in_place(out, generator, {.op = RandomOp::bernoulli_each, .in = compared.raw_data()});
}

Tensor multinomial(const Tensor& weights, const MultinomialOptions& options) {
  check_weights(weights, options);
  if (!options.replacement || options.num_samples == 1) return largest_quotients(weights.detach(), options);
  if (weights.dtype() == DType::f64) return draw_with_replacement<double>(weights.detach(), options);
  return draw_with_replacement<float>(weights.detach(), options);
}

const Tensor& uniform_(const Tensor& x, double from, double to, const std::optional<Generator>& generator) {
  const double largest = is_floating(x.dtype()) ? finfo(x.dtype()).max : std::numeric_limits<double>::infinity();
  const std::string type = raw::kernel::c_type_name(x.dtype());
  check(from >= -largest && from <= largest, "from is out of bounds for " + type);
  check(to >= -largest && to <= largest, "to is out of bounds for " + type);
  check(from <= to,
        "uniform_ expects to return a [from, to) range, but found from=" + number(from) + " > to=" + number(to));
  return fill_in_place(x, generator, {RandomOp::uniform, from, to});
}

const Tensor& normal_(const Tensor& x, double mean, double std, const std::optional<Generator>& generator) {
  check(std >= 0, "normal expects std >= 0.0, but found std " + number(std));
  const bool is_serial = x.device().is_cpu() && !x.is_contiguous();
  return fill_in_place(x, generator, {is_serial ? RandomOp::normal_serial : RandomOp::normal, mean, std});
}

const Tensor& bernoulli_(const Tensor& x, double p, const std::optional<Generator>& generator) {
  check(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=" + number(p));
  return fill_in_place(x, generator, {RandomOp::bernoulli, p});
}

const Tensor& exponential_(const Tensor& x, double lambda, const std::optional<Generator>& generator) {
  check(is_floating(x.dtype()),
        std::string("Exponential distribution is a continuous probability distribution. dtype must be a floating point "
                    "but you specified ") +
            scalar_type_name(x.dtype()));
  check(lambda > 0, "exponential_ expects lambda > 0.0, but found lambda=" + number(lambda));
  return fill_in_place(x, generator, {RandomOp::exponential, lambda});
}

const Tensor& geometric_(const Tensor& x, double p, const std::optional<Generator>& generator) {
  check(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=" + number(p));
  return fill_in_place(x, generator, {RandomOp::geometric, p});
}

const Tensor& log_normal_(const Tensor& x, double mean, double std, const std::optional<Generator>& generator) {
  check(std > 0, "log_normal_ expects std > 0.0, but found std=" + number(std));
  return fill_in_place(x, generator, {RandomOp::log_normal, mean, std});
}

const Tensor& cauchy_(const Tensor& x, double median, double sigma, const std::optional<Generator>& generator) {
  check(is_floating(x.dtype()),
        "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
        "specified " +
            std::string(c_type_name(x.dtype())));
  check(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=" + number(sigma));
  return fill_in_place(x, generator, {RandomOp::cauchy, median, sigma});
}

const Tensor& random_(const Tensor& x, const std::optional<Generator>& generator) {
  return fill_in_place(x, generator, {RandomOp::any_integer});
}

const Tensor& random_(const Tensor& x, std::int64_t from, std::int64_t to, const std::optional<Generator>& generator) {
  return fill_in_place(x, generator, integers_fill(x.dtype(), from, to));
}

}  // namespace core
