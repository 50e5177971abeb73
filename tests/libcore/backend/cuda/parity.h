#pragma once
// What the parity tests share: loops of every kind of layout, buffers of random numbers, and their comparison.
// Thread safety: none. Use: for (const auto& loop : test::loops<3>()) { ... }

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "libcore/backend/op_params.h"
#include "libcore/base/dtype.h"

namespace test {

/// A loop, and how far into its buffer each operand begins.
template <int N>
struct Case {
  std::string name;
  core::Loop<N> loop;
  std::int64_t first[N];

  /// Elements that the buffer of operand k needs.
  std::int64_t extent(int k) const {
    std::int64_t last = first[k];
    for (int d = 0; d < loop.ndim; ++d) last += loop.strides[k][d] * (loop.sizes[d] > 0 ? loop.sizes[d] - 1 : 0);
    return last + 1;
  }
};

/// Strides of one operand: of a dense array whose dimensions lie in memory in the order given, with `gap` between
/// neighbours; 0 along `still`.
struct Layout {
  std::vector<int> order;
  std::int64_t gap = 1;
  int still = -1;
  std::int64_t first = 0;
};

template <int N>
Case<N> make_case(const std::string& name, const std::vector<std::int64_t>& sizes, const std::vector<Layout>& layouts) {
  Case<N> made{name, {}, {}};
  made.loop.ndim = static_cast<int>(sizes.size());
  made.loop.numel = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) made.loop.numel *= made.loop.sizes[d] = sizes[d];
  for (int k = 0; k < N; ++k) {
    const Layout& layout = layouts[static_cast<std::size_t>(k) % layouts.size()];
    std::int64_t step = layout.gap;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const int d = layout.order.empty() ? static_cast<int>(i) : layout.order[i];
      if (d == layout.still) continue;
      made.loop.strides[k][d] = step;
      step *= sizes[static_cast<std::size_t>(d)];
    }
    made.first[k] = layout.first;
  }
  return made;
}

/// Empty, one element, dense, not aligned, with gaps, transposed, broadcast, of many dimensions, large. The first
/// operand is written, so it never stands still.
template <int N>
std::vector<Case<N>> loops() {
  const Layout dense, gaps{{}, 3}, still{{}, 1, 0}, shifted{{}, 1, -1, 1};
  const Layout across{{1, 0}}, rows{{}, 1, 1}, columns{{}, 1, 0};
  return {make_case<N>("empty", {0}, {dense}),
          make_case<N>("one", {1}, {dense}),
          make_case<N>("dense", {1000}, {dense}),
          make_case<N>("few", {3}, {dense}),
          make_case<N>("not aligned", {1003}, {shifted, dense}),
          make_case<N>("second single", {130}, {dense, dense, still, dense}),
          make_case<N>("first single", {131}, {dense, still, dense, still}),
          make_case<N>("gaps", {77}, {gaps, dense, gaps}),
          make_case<N>("transposed", {13, 7}, {dense, across, dense, across}),
          make_case<N>("rows", {16, 9}, {dense, rows, columns, dense}),
          make_case<N>("three", {5, 3, 4}, {{{0, 2, 1}}, {{2, 1, 0}, 2}, {{1, 0, 2}, 1, 1}}),
          make_case<N>("five", {4, 2, 3, 2, 3}, {gaps, {{4, 3, 2, 1, 0}}, {{0, 1, 2, 4, 3}, 1, 2}}),
          make_case<N>("large", {20001}, {dense}),
          make_case<N>("large rows", {150, 131}, {gaps, {{1, 0}}, dense})};
}

/// Elements of any dtype.
struct Buffer {
  core::DType dtype;
  std::vector<std::byte> bytes;

  Buffer(core::DType type, std::int64_t count);
  std::int64_t size() const;
  void* at(std::int64_t i);
  double number(std::int64_t i) const;
  void set(std::int64_t i, double value);
};

/// What numbers a buffer holds.
enum class Numbers {
  any,       ///< of either sign, some zeros, of floats some infinities and NaN
  finite,    ///< of either sign
  near_one,  ///< 0.8 to 1.2; integers 1 or 2
  nonzero,   ///< as `any` without zeros and, in integers, of small size
};

Buffer random_buffer(core::DType dtype, std::int64_t count, Numbers numbers, std::mt19937& random);
/// The same numbers in another dtype.
Buffer converted(const Buffer& from, core::DType dtype);

struct Tolerance {
  double relative = 0;
  double absolute = 0;
};
/// What the functions of a dtype may differ by.
Tolerance tolerance_of(core::DType dtype);

/// Empty when all elements agree (NaN with NaN), else the first that does not.
std::string difference(const Buffer& expected, const Buffer& actual, const Tolerance& tolerance);

bool is_half(core::DType dtype);

/// Counts slots: those of the CPU's table, those of them that the device has, and others of the device.
struct Coverage {
  int cpu = 0, both = 0, more = 0;
  void count(bool on_cpu, bool on_device);
  /// The same, but for complex numbers, whose kernels are the CPU's alone.
  void count(core::DType dtype, bool on_cpu, bool on_device) {
    if (on_device || !core::is_complex(dtype)) count(on_cpu, on_device);
  }
  std::string str() const;
};

}  // namespace test
