#include "libcore/tensor/random_fill.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/backend/cpu/random/elements.h"
#include "libcore/backend/cpu/random/philox_fills.h"
#include "libcore/backend/random_stream.h"

namespace core::detail {
namespace {

constexpr std::int64_t kBlock = 16;
/// Ranges from here on take 64 random bits a number.
constexpr std::uint64_t kWideRange = 1ULL << 28;

bool is_cuda(const Generator& generator) {
  return generator.device().is_cuda();
}

/// Locks the stream and stores next(stream) into every element.
template <class T, class Next>
void generate(const Generator& generator, RandomOut out, Next next) {
  RandomStream& stream = generator.stream();
  std::scoped_lock lock(stream.mutex);
  T* to = elements<T>(out);
  for (std::int64_t i = 0; i < out.count; ++i) to[i] = next(stream);
}

template <class T>
T uniform_value(Mt19937& engine, UniformLimits limits) {
  if constexpr (std::is_same_v<T, double>) {
    return std::fma(uniform64(engine), limits.to - limits.from, limits.from);
  } else {
    auto from = static_cast<float>(limits.from);
    auto to = static_cast<float>(limits.to);
    float value = std::fma(uniform32(engine), to - from, from);
    if constexpr (std::is_same_v<T, float>) return value;
    T rounded = from_float<T>(value);
    bool at_limit = to_float(rounded) >= to_float(from_float<T>(to));  // the upper limit itself is never drawn
    return at_limit ? from_float<T>(from) : rounded;
  }
}

/// Blocks of 16 in T (float or double); the last 16 are drawn again when 16 does not divide the count.
template <class T>
void normal_dense(RandomStream& stream, RandomOut out, NormalShape shape) {
  T* data = elements<T>(out);
  for (std::int64_t i = 0; i < out.count; ++i) data[i] = uniform_value<T>(stream.engine, {});
  std::int64_t whole = out.count / kBlock * kBlock;
  normal_blocks(data, whole, shape);
  if (whole == out.count) return;
  T* last = data + out.count - kBlock;
  for (std::int64_t i = 0; i < kBlock; ++i) last[i] = uniform_value<T>(stream.engine, {});
  normal_blocks(last, kBlock, shape);
}

/// Half types: block after block in f32, and no draws for a remainder before the last 16 are drawn again.
template <class T>
void normal_dense_half(RandomStream& stream, RandomOut out, NormalShape shape) {
  T* data = elements<T>(out);
  auto block = [&](T* to) {
    float values[kBlock];
    for (float& value : values) value = uniform32(stream.engine);
    normal_blocks(values, kBlock, shape);
    for (std::int64_t i = 0; i < kBlock; ++i) to[i] = from_float<T>(values[i]);
  };
  for (std::int64_t at = 0; at + kBlock <= out.count; at += kBlock) block(data + at);
  if (out.count % kBlock != 0) block(data + out.count - kBlock);
}

/// 0 .. the largest integer T holds exactly; 64 random bits for the types of 64 bits.
template <class T>
std::int64_t any_integer(Mt19937& engine) {
  std::uint64_t number = sizeof(T) == 8 ? engine.next64() : engine.next();
  return static_cast<std::int64_t>(number % (max_integer<T>() + 1));
}

/// A distribution made from one uniform number an element: for CUDA generators the kernel `op` with the parameters a
/// and b, which takes its own; else `transform` of a double.
struct Transformed {
  const char* what;
  RandomOp op;
  double a;
  double b = 0;
};
template <class Transform>
void fill_transformed(const Generator& generator, RandomOut out, const Transformed& how, Transform transform) {
  if (is_cuda(generator)) return cuda_fill_transformed(generator.stream(), out, how.op, how.a, how.b);
  for_dtype(out.dtype, how.what, [&]<class T>() {
    generate<T>(generator, out,
                [&](RandomStream& stream) { return from_number<T>(transform(uniform64(stream.engine))); });
  });
}

/// Probabilities as a CUDA device compares them: doubles for f64, floats for any other dtype.
template <class P>
void fill_bernoulli_on_cuda(RandomStream& stream, RandomOut out, const P* probabilities) {
  const auto count = static_cast<std::size_t>(out.count);
  if (out.dtype == DType::f64) {
    std::vector<double> wide(count);
    for (std::size_t i = 0; i < count; ++i) wide[i] = widened(probabilities[i]);
    return cuda_fill_bernoulli_each(stream, out, wide.data());
  }
  std::vector<float> narrow(count);
  for (std::size_t i = 0; i < count; ++i) narrow[i] = static_cast<float>(widened(probabilities[i]));
  cuda_fill_bernoulli_each(stream, out, narrow.data());
}

}  // namespace

void fill_uniform(const Generator& generator, RandomOut out, UniformLimits limits) {
  for_floating(out.dtype, "check_uniform_bounds", [&]<class T>() {
    if (is_cuda(generator)) return cuda_fill_uniform(generator.stream(), out, limits);
    generate<T>(generator, out, [&](RandomStream& stream) { return uniform_value<T>(stream.engine, limits); });
  });
}

void fill_normal(const Generator& generator, RandomOut out, NormalShape shape) {
  if (out.count < kBlock || is_cuda(generator)) return fill_normal_serial(generator, out, shape);
  for_floating(out.dtype, "normal_kernel_cpu", [&]<class T>() {
    RandomStream& stream = generator.stream();
    std::scoped_lock lock(stream.mutex);
    if constexpr (kIsHalfType<T>) {
      normal_dense_half<T>(stream, out, shape);
    } else {
      normal_dense<T>(stream, out, shape);
    }
  });
}

void fill_normal_serial(const Generator& generator, RandomOut out, NormalShape shape) {
  for_floating(out.dtype, "normal_kernel_cpu", [&]<class T>() {
    if (is_cuda(generator)) return cuda_fill_normal(generator.stream(), out, shape);
    generate<T>(generator, out, [&](RandomStream& stream) {
      return from_number<T>(std::fma(normal64(stream), shape.std, shape.mean));
    });
  });
}

void fill_integers(const Generator& generator, RandomOut out, IntegerRange range) {
  if (is_cuda(generator)) return cuda_fill_integers(generator.stream(), out, range);
  for_dtype(out.dtype, "random_from_to", [&]<class T>() {
    generate<T>(generator, out, [&](RandomStream& stream) {
      std::uint64_t number = range.size >= kWideRange ? stream.engine.next64() : stream.engine.next();
      return from_number<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(range.from) + number % range.size));
    });
  });
}

void fill_any_integer(const Generator& generator, RandomOut out) {
  for_dtype(out.dtype, "random", [&]<class T>() {
    if (is_cuda(generator)) return cuda_fill_any_integer(generator.stream(), out);
    generate<T>(generator, out, [](RandomStream& stream) { return from_number<T>(any_integer<T>(stream.engine)); });
  });
}

namespace {
/// PyTorch's shuffle: a number below what is left for each place.
void shuffle(Mt19937& engine, std::int64_t* order, std::int64_t count) {
  for (std::int64_t i = 0; i + 1 < count; ++i) {
    const std::int64_t left = count - i;
    const std::uint32_t drawn = engine.next();
    // A division of 32 bits takes half the time of one of 64.
    const std::int64_t step =
        left <= 0x7fffffff ? static_cast<std::int64_t>(drawn % static_cast<std::uint32_t>(left)) : drawn % left;
    std::swap(order[i], order[i + step]);
  }
}
}  // namespace

void fill_permutation(const Generator& generator, RandomOut out) {
  std::vector<std::int64_t> buffer;
  if (out.dtype != DType::i64) buffer.resize(static_cast<std::size_t>(out.count));
  std::int64_t* order = out.dtype == DType::i64 ? elements<std::int64_t>(out) : buffer.data();
  std::iota(order, order + out.count, 0);
  if (is_cuda(generator)) {
    cuda_permutation(generator.stream(), {order, static_cast<std::size_t>(out.count)});
  } else {
    RandomStream& stream = generator.stream();
    std::scoped_lock lock(stream.mutex);
    shuffle(stream.engine, order, out.count);
  }
  if (out.dtype == DType::i64) return;
  for_dtype(out.dtype, "randperm", [&]<class T>() {
    std::transform(buffer.begin(), buffer.end(), elements<T>(out), from_number<T, std::int64_t>);
  });
}

void fill_bernoulli(const Generator& generator, RandomOut out, double p) {
  fill_transformed(generator, out, {"bernoulli_scalar_cpu_", RandomOp::bernoulli, p},
                   [p](double u) { return u < p ? 1.0 : 0.0; });
}

void fill_bernoulli_each(const Generator& generator, RandomOut out, const void* probabilities, DType dtype) {
  // Half-type probabilities meet f32 numbers that were not rounded to them.
  DType drawn_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
  for_floating(dtype, "bernoulli_tensor_cpu_p_", [&]<class P>() {
    using Drawn = std::conditional_t<std::is_same_v<P, double>, double, float>;
    const P* p = static_cast<const P*>(probabilities);
    if (is_cuda(generator)) return fill_bernoulli_on_cuda(generator.stream(), out, p);
    std::vector<Drawn> drawn(static_cast<std::size_t>(out.count));
    fill_uniform(generator, {drawn.data(), drawn_dtype, out.count}, {});
    for_dtype(out.dtype, "bernoulli_tensor_cpu_self_", [&]<class T>() {
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        elements<T>(out)[i] = from_number<T>(drawn[i] < widened(p[i]) ? 1.0 : 0.0);
      }
    });
  });
}

void fill_exponential(const Generator& generator, RandomOut out, double lambda) {
  fill_transformed(generator, out, {"exponential_", RandomOp::exponential, lambda},
                   [lambda](double u) { return -1.0 / lambda * std::log1p(-u); });
}

void fill_geometric(const Generator& generator, RandomOut out, double p) {
  fill_transformed(generator, out, {"geometric_cpu", RandomOp::geometric, p},
                   [p](double u) { return std::ceil(std::log(u) / std::log1p(-p)); });
}

void fill_cauchy(const Generator& generator, RandomOut out, NormalShape shape) {
  fill_transformed(generator, out, {"cauchy", RandomOp::cauchy, shape.mean, shape.std},
                   [shape](double u) { return shape.mean + shape.std * std::tan(std::numbers::pi * (u - 0.5)); });
}

void fill_log_normal(const Generator& generator, RandomOut out, NormalShape shape) {
  for_floating(out.dtype, "log_normal_cpu", [&]<class T>() {
    if (is_cuda(generator)) return cuda_fill_log_normal(generator.stream(), out, shape);
    generate<T>(generator, out, [&](RandomStream& stream) {
      return from_number<T>(std::exp(std::fma(normal64(stream), shape.std, shape.mean)));
    });
  });
}

std::int64_t draw_seed(const Generator& generator) {
  std::int64_t seed = 0;
  fill_any_integer(generator, {&seed, DType::i64, 1});
  return seed;
}

}  // namespace core::detail
