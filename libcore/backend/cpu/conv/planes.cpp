// Convolutions of few channels over images in ordinary order. A plane is copied with its border of zeros into the first
// cache, at stride two and more with each row's columns apart by what they leave when divided by the stride: so the
// numbers that neighbouring outputs see through a tap are neighbours, and no pixel is a special case. The gradient of
// the input is the same over the output's gradient, for each remainder of rows and columns with the taps that reach it.
// Each output is one sum in one order: results do not depend on the number of threads. Numbers of 16 bits are f32
// there. Borders and what fills vectors up are multiplied too: where that would make NaN, the products that there are
// are taken one by one.
#include "libcore/backend/cpu/conv/planes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/backend/cpu/scratch.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/cpu/vector.h"
#include "libcore/backend/image_order.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

constexpr std::int64_t kWide = kWidth<float>;
constexpr std::int64_t kWork = 32768;  // vectors multiplied that are worth a thread's start

std::int64_t up(std::int64_t count, std::int64_t by) {
  return (count + by - 1) / by;
}

/// Numbers of f32, f16 or bf16.
template <class Pointer>
struct NumbersAt {
  DType type;
  Pointer data;

  Pointer at(std::int64_t number) const {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
    return static_cast<Byte*>(data) + number * (type == DType::f32 ? 4 : 2);
  }
};
using Numbers = NumbersAt<const void*>;

/// `count` of them from `first` on: where they are, or widened in `room`.
const float* wide(const Numbers& numbers, std::int64_t first, std::int64_t count, float* room) {
  if (numbers.type == DType::f32) return static_cast<const float*>(numbers.at(first));
  widen_row(numbers.type, numbers.at(first), count, room);
  return room;
}
float wide(const Numbers& numbers, std::int64_t number) {
  float room;
  return *wide(numbers, number, 1, &room);
}

/// Room for `count` results, which go to their places when it ends.
class Results {
 public:
  Results(const NumbersAt<void*>& to, std::int64_t first, std::int64_t count, float* room)
      : type_(to.type), to_(to.at(first)), count_(count), data_(room) {
    if (type_ == DType::f32) data_ = static_cast<float*>(to_);
  }
  ~Results() {
    if (type_ != DType::f32) round_row(type_, data_, count_, to_);
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  float* data() const { return data_; }

 private:
  DType type_;
  void* to_;
  std::int64_t count_;
  float* data_;
};

/// Rooms, none for f32.
float* room_in(DType type, std::int64_t count) {
  return type == DType::f32 ? nullptr : scratch<float>(Scratch::weight, count);
}
float* room_out(DType type, std::int64_t count) {
  return type == DType::f32 ? nullptr : scratch<float>(Scratch::primitive, count);
}

/// Channels of a group.
std::int64_t inputs_of(const Conv2dSizes& s) {
  return s.in_channels / s.groups;
}
std::int64_t outputs_of(const Conv2dSizes& s) {
  return s.out_channels / s.groups;
}
std::int64_t filter_of(const Conv2dSizes& s) {
  return s.kernel_h * s.kernel_w;
}

/// One axis of the convolution.
struct Axis {
  std::int64_t in, out, kernel, stride, dilation, pad;
};
Axis rows_of(const Conv2dSizes& s) {
  return {s.in_h, s.out_h, s.kernel_h, s.stride_h, s.dilation_h, s.pad_top};
}
Axis columns_of(const Conv2dSizes& s) {
  return {s.in_w, s.out_w, s.kernel_w, s.stride_w, s.dilation_w, s.pad_left};
}

/// Whether 0 times each of them is 0.
template <class T>
bool are_finite(const T* numbers, std::int64_t count) {
  return std::all_of(numbers, numbers + count, [](T number) { return std::isfinite(number); });
}

/// Calls visit(tap, pixel of the output, pixel of the image) for all products of a filter and a plane.
template <class Visit>
void for_each_product(const Conv2dSizes& s, Visit visit) {
  for (std::int64_t tap = 0; tap < filter_of(s); ++tap) {
    const std::int64_t down = tap / s.kernel_w * s.dilation_h - s.pad_top;
    const std::int64_t right = tap % s.kernel_w * s.dilation_w - s.pad_left;
    for (std::int64_t i = 0; i < s.out_h * s.out_w; ++i) {
      const std::int64_t y = i / s.out_w * s.stride_h + down, x = i % s.out_w * s.stride_w + right;
      if (y >= 0 && y < s.in_h && x >= 0 && x < s.in_w) visit(tap, i, y * s.in_w + x);
    }
  }
}

/// Taps of a filter: what each is multiplied by, and how far it lies from the first one in a bordered plane.
struct Taps {
  std::int64_t count = 0;
  std::array<std::int64_t, kMostPlaneTaps> offset;
  std::array<float, kMostPlaneTaps> weight;

  void add(std::int64_t place, float factor) {
    offset[static_cast<std::size_t>(count)] = place;
    weight[static_cast<std::size_t>(count++)] = factor;
  }
};

struct Rows {
  const float* in;      ///< what the first output sees through a tap without an offset
  std::int64_t in_row;  ///< floats from what a row of outputs sees to what the next one sees
  float* out;
  std::int64_t out_row;
  std::int64_t width;
};

template <int kRows>
CORE_INLINE void sum_taps(const Rows& rows, const Taps& taps, float bias, std::int64_t x, std::int64_t count) {
  Vector<float> sums[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sums[r] = all_of(bias);
  for (std::size_t tap = 0; tap < static_cast<std::size_t>(taps.count); ++tap) {
    const Vector<float> factor = all_of(taps.weight[tap]);
    const float* in = rows.in + taps.offset[tap] + x;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] += load(in + r * rows.in_row) * factor;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* out = rows.out + r * rows.out_row + x;
    count == kWide ? store(out, sums[r]) : store_part(out, sums[r], static_cast<int>(count));
  }
}

/// The last vector of a row may overlap the one before.
template <int kRows>
void sum_rows(const Rows& rows, const Taps& taps, float bias) {
  if (rows.width < kWide) return sum_taps<kRows>(rows, taps, bias, 0, rows.width);
  for (std::int64_t x = 0; x < rows.width; x += kWide) {
    sum_taps<kRows>(rows, taps, bias, std::min(x, rows.width - kWide), kWide);
  }
}

/// Each load of a factor serves eight rows, whose sums do not wait for each other.
void sum_rows(Rows rows, std::int64_t count, const Taps& taps, float bias) {
  const auto take = [&](std::int64_t some, void (*sum)(const Rows&, const Taps&, float)) {
    for (; count >= some; count -= some) {
      sum(rows, taps, bias);
      rows.in += some * rows.in_row, rows.out += some * rows.out_row;
    }
  };
  take(8, sum_rows<8>);
  take(4, sum_rows<4>);
  take(2, sum_rows<2>);
  take(1, sum_rows<1>);
}

/// How a plane lies with its border: rows, in each the columns that leave 0, 1, ... when divided by `phases`.
struct Border {
  std::int64_t before_h, before_w;  ///< zeros
  std::int64_t rows, phases, length;

  std::int64_t row() const { return phases * length; }
  std::int64_t size() const { return rows * row(); }
};

/// Of an image, for outputs in whole vectors.
Border image_border(const Conv2dSizes& s) {
  const std::int64_t reach = (s.kernel_w - 1) * s.dilation_w / s.stride_w;
  return {s.pad_top, s.pad_left, (s.out_h - 1) * s.stride_h + (s.kernel_h - 1) * s.dilation_h + 1, s.stride_w,
          up(s.out_w, kWide) * kWide + reach};
}

CORE_INLINE void put_zeros(float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += kWide) store_up_to(to + i, Vector<float>{}, count - i);
}

CORE_INLINE void put_numbers(const float* from, std::int64_t count, float* to) {
  if (count < kWide) return store_part(to, load_part(from, static_cast<int>(count)), static_cast<int>(count));
  for (std::int64_t i = 0; i < count; i += kWide) {  // the last vector may overlap the one before
    const std::int64_t at = std::min(i, count - kWide);
    store(to + at, load(from + at));
  }
}

/// kStride: a constant for the compiler, or 0.
template <std::int64_t kStride>
void put_phase(const float* in, std::int64_t count, std::int64_t stride, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = in[i * (kStride != 0 ? kStride : stride)];
}

/// A library's copies and fills would take longer than the sums: rows are short.
void put_row(const float* in, std::int64_t width, const Border& b, float* out) {
  for (std::int64_t phase = 0; phase < b.phases; ++phase, out += b.length) {
    const std::int64_t before = std::min(b.length, b.before_w > phase ? up(b.before_w - phase, b.phases) : 0);
    const std::int64_t first = before * b.phases + phase - b.before_w;  // pixel
    const std::int64_t count = std::clamp<std::int64_t>(up(width - first, b.phases), 0, b.length - before);
    put_zeros(out, before);
    if (b.phases == 1) {
      put_numbers(in + first, count, out + before);
    } else {
      b.phases == 2 ? put_phase<2>(in + first, count, 2, out + before)
                    : put_phase<0>(in + first, count, b.phases, out + before);
    }
    put_zeros(out + before + count, b.length - before - count);
  }
}

/// `count` planes (height, width) with their borders, one behind the other.
const float* with_border(const float* planes, std::int64_t count, std::int64_t height, std::int64_t width,
                         const Border& b, Scratch name) {
  float* out = scratch<float>(name, count * b.size());
  for (std::int64_t i = 0; i < count * b.rows; ++i) {
    const std::int64_t y = i % b.rows - b.before_h;
    float* to = out + i * b.row();
    const float* plane = planes + i / b.rows * height * width;
    y >= 0 && y < height ? put_row(plane + y * width, width, b, to) : put_zeros(to, b.row());
  }
  return out;
}

/// Of an output. weight: its filters, or null.
Taps image_taps(const Conv2dSizes& s, const Border& b, const float* weight) {
  Taps taps;
  for (std::int64_t i = 0; i < inputs_of(s) * s.kernel_h; ++i) {
    const std::int64_t row = i / s.kernel_h * b.size() + i % s.kernel_h * s.dilation_h * b.row();
    for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
      const std::int64_t place = kw * s.dilation_w;
      taps.add(row + place % b.phases * b.length + place / b.phases,
               weight != nullptr ? weight[i * s.kernel_w + kw] : 0);
    }
  }
  return taps;
}

/// Of the output's gradient, for an image's gradient in whole vectors.
struct GradBorder : Border {
  /// Outputs behind the last pixel are seen by none.
  explicit GradBorder(const Conv2dSizes& s)
      : Border{before(rows_of(s)), before(columns_of(s)), before(rows_of(s)) + last(rows_of(s)) + 1, 1,
               before(columns_of(s)) + up(last(columns_of(s)) + 1, kWide) * kWide + kWide} {}

 private:
  static std::int64_t before(const Axis& a) { return (a.kernel - 1) * a.dilation / a.stride; }
  static std::int64_t last(const Axis& a) { return (a.in - 1 + a.pad) / a.stride; }
};

/// Remainders of rows and columns when divided by the strides.
struct Remainder {
  std::int64_t h, w;
};

/// Those of an input's gradient that reach such rows and columns. weight: what the group's first output sees of it.
Taps grad_taps(const Conv2dSizes& s, const Border& b, const float* weight, Remainder phase) {
  Taps taps;
  for (std::int64_t i = 0; i < outputs_of(s) * s.kernel_h; ++i) {
    const std::int64_t out = i / s.kernel_h, down = i % s.kernel_h * s.dilation_h - phase.h;
    if (down % s.stride_h != 0) continue;
    const float* filter = weight + out * inputs_of(s) * filter_of(s) + i % s.kernel_h * s.kernel_w;
    for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
      const std::int64_t right = kw * s.dilation_w - phase.w;
      if (right % s.stride_w != 0) continue;
      taps.add(out * b.size() - down / s.stride_h * b.row() - right / s.stride_w, filter[kw]);
    }
  }
  return taps;
}

/// Pixels of an axis which leave the same when they, counted from the border's first, are divided by the stride.
struct Phase {
  std::int64_t first;  ///< the first such pixel
  std::int64_t count;
  std::int64_t place;  ///< what its place in the border is when divided

  Phase(const Axis& a, std::int64_t phase) {
    first = ((phase - a.pad) % a.stride + a.stride) % a.stride;
    count = first < a.in ? up(a.in - first, a.stride) : 0;
    place = (first + a.pad) / a.stride;
  }
};

/// seen: the gradients of the group's outputs, where the first is.
void input_grad_of_plane(const Conv2dSizes& s, const Border& b, const float* seen, const float* weight, float* out) {
  for (std::int64_t i = 0; i < s.stride_h * s.stride_w; ++i) {
    const Remainder phase{i / s.stride_w, i % s.stride_w};
    const Phase down(rows_of(s), phase.h), right(columns_of(s), phase.w);
    if (down.count == 0 || right.count == 0) continue;
    const Taps taps = grad_taps(s, b, weight, phase);
    const float* in = seen + down.place * b.row() + right.place;
    float* to = out + down.first * s.in_w + right.first;
    if (s.stride_w == 1) {
      sum_rows({in, b.row(), to, s.stride_h * s.in_w, right.count}, down.count, taps, 0);
      continue;
    }
    float* sums = scratch<float>(Scratch::output, down.count * right.count);
    sum_rows({in, b.row(), sums, right.count, right.count}, down.count, taps, 0);
    for (std::int64_t y = 0; y < down.count; ++y) {
      float* row = to + y * s.stride_h * s.in_w;
      for (std::int64_t x = 0; x < right.count; ++x) row[x * s.stride_w] = sums[y * right.count + x];
    }
  }
}

/// The plain ways of one output, and of one input's gradient. weight: what belongs to these, as for the others.
void plain_output(const Conv2dSizes& s, const float* images, const float* weight, float bias, float* out) {
  std::fill_n(out, s.out_h * s.out_w, bias);
  for (std::int64_t i = 0; i < inputs_of(s); ++i, images += s.in_h * s.in_w, weight += filter_of(s)) {
    for_each_product(
        s, [&](std::int64_t tap, std::int64_t to, std::int64_t from) { out[to] += weight[tap] * images[from]; });
  }
}
void plain_input_grad(const Conv2dSizes& s, const float* grads, const float* weight, float* out) {
  std::fill_n(out, s.in_h * s.in_w, 0.0F);
  for (std::int64_t i = 0; i < outputs_of(s); ++i, grads += s.out_h * s.out_w, weight += inputs_of(s) * filter_of(s)) {
    for_each_product(
        s, [&](std::int64_t tap, std::int64_t from, std::int64_t to) { out[to] += weight[tap] * grads[from]; });
  }
}

/// An image's plane and the gradient of its output, both with a border, the latter's rows filled up with zeros.
struct Pair {
  const float* image;
  std::int64_t image_row;  ///< floats between what neighbouring rows of outputs see
  const float* grad;
  std::int64_t height, width;
};

/// The sums of the products with what some neighbouring taps see.
template <int kTaps>
void sum_products(const Pair& p, const std::int64_t* offsets, double* to) {
  Vector<float> sums[kTaps] = {};
  for (std::int64_t y = 0; y < p.height; ++y) {
    const float *grad = p.grad + y * p.width, *image = p.image + y * p.image_row;
    for (std::int64_t x = 0; x < p.width; x += kWide) {
      const Vector<float> g = load(grad + x);
#pragma GCC unroll 12
      for (int tap = 0; tap < kTaps; ++tap) sums[tap] += load(image + x + offsets[tap]) * g;
    }
  }
  for (int tap = 0; tap < kTaps; ++tap) {
    for (std::int64_t lane = 0; lane < kWide; ++lane) to[tap] += static_cast<double>(sums[tap][lane]);
  }
}

/// REQUIRES: whole vectors.
double sum_of(const float* numbers, std::int64_t count) {
  Vector<float> sums{};
  for (std::int64_t i = 0; i < count; i += kWide) sums += load(numbers + i);
  double sum = 0;
  for (std::int64_t lane = 0; lane < kWide; ++lane) sum += static_cast<double>(sums[lane]);
  return sum;
}

using SumProducts = void (*)(const Pair&, const std::int64_t*, double*);
/// Taps whose sums fit the registers.
constexpr int kTapsAtOnce = 12;

template <int... kTaps>
constexpr std::array<SumProducts, sizeof...(kTaps)> all_sums(std::integer_sequence<int, kTaps...>) {
  return {sum_products<kTaps + 1>...};
}
constexpr auto kSumProducts = all_sums(std::make_integer_sequence<int, kTapsAtOnce>());

/// The gradients of an output's filters and bias: each plane is summed up in f32, all of them in f64. add() each image,
/// in their order, then finish().
class WeightGrad {
 public:
  WeightGrad(DType type, const Conv2dWeightGradParams& p, const Border& b, std::int64_t output)
      : type_(type), p_(p), s_(p.sizes), border_(b), output_(output), taps_(image_taps(s_, b, nullptr)) {}

  /// What the group sees of image n, with its border.
  const float* bordered(std::int64_t n) const {
    return with_border(images(n), inputs_of(s_), s_.in_h, s_.in_w, border_, Scratch::input);
  }
  /// image: bordered(n).
  void add(std::int64_t n, const float* image) {
    const Border whole{0, 0, s_.out_h, 1, up(s_.out_w, kWide) * kWide};
    const Pair pair{image, s_.stride_h * border_.row(),
                    with_border(grads(n), 1, s_.out_h, s_.out_w, whole, Scratch::output), s_.out_h, whole.length};
    for (std::int64_t tap = 0; tap < taps_.count; tap += kTapsAtOnce) {
      const auto some = static_cast<std::size_t>(std::min<std::int64_t>(kTapsAtOnce, taps_.count - tap));
      kSumProducts[some - 1](pair, taps_.offset.data() + tap, sums_.data() + tap);
    }
    if (p_.bias_grad != nullptr) bias_ += sum_of(pair.grad, whole.size());
  }

  void finish() {
    if (!are_finite(sums_.data(), taps_.count)) {
      sums_.fill(0);
      for (std::int64_t n = 0; n < s_.batch; ++n) add_plainly(n);
    }
    std::array<float, kMostPlaneTaps> room;
    if (p_.bias_grad != nullptr) {
      *Results({type_, p_.bias_grad}, output_, 1, room.data()).data() = static_cast<float>(bias_);
    }
    const Results out({type_, p_.weight_grad}, output_ * taps_.count, taps_.count, room.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(taps_.count); ++i)
      out.data()[i] = static_cast<float>(sums_[i]);
  }

 private:
  /// What the output sees of image n, and the gradient there.
  const float* images(std::int64_t n) const {
    const std::int64_t count = inputs_of(s_) * s_.in_h * s_.in_w, group = n * s_.groups + output_ / outputs_of(s_);
    return wide({type_, p_.input}, group * count, count, room_in(type_, count));
  }
  const float* grads(std::int64_t n) const {
    const std::int64_t count = s_.out_h * s_.out_w;
    return wide({type_, p_.output_grad}, (n * s_.out_channels + output_) * count, count, room_out(type_, count));
  }

  void add_plainly(std::int64_t n) {
    const float *image = images(n), *grad = grads(n);
    double* sums = sums_.data();
    for (std::int64_t i = 0; i < inputs_of(s_); ++i, image += s_.in_h * s_.in_w, sums += filter_of(s_)) {
      for_each_product(s_, [&](std::int64_t tap, std::int64_t out, std::int64_t in) {
        sums[tap] += static_cast<double>(image[in] * grad[out]);
      });
    }
  }

  DType type_;
  const Conv2dWeightGradParams& p_;
  const Conv2dSizes& s_;
  const Border& border_;
  std::int64_t output_;
  Taps taps_;
  std::array<double, kMostPlaneTaps> sums_{};
  double bias_ = 0;
};

/// Calls visit(begin, end) for pieces of the work, on several threads.
template <class Visit>
void for_pieces(const Conv2dSizes& s, std::int64_t pieces, Visit visit) {
  const std::int64_t vectors = s.batch * s.out_channels * s.out_h * up(s.out_w, kWide) * inputs_of(s) * filter_of(s);
  parallel_for(pieces, 1 + kWork * pieces / vectors, [&](std::int64_t begin, std::int64_t end) {
    visit(begin, end);
    trim_scratch();
  });
}
template <class Visit>
void for_each_piece(const Conv2dSizes& s, std::int64_t pieces, Visit visit) {
  for_pieces(s, pieces, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) visit(i);
  });
}

}  // namespace

void planes_conv(DType type, const Conv2dParams& p) {
  const Conv2dSizes& s = p.sizes;
  const Border b = image_border(s);
  const std::int64_t outputs = outputs_of(s), images = inputs_of(s) * s.in_h * s.in_w, pixels = s.out_h * s.out_w;
  const std::int64_t filters = inputs_of(s) * filter_of(s);
  for_each_piece(s, s.batch * s.groups, [&](std::int64_t piece) {
    const float* image = wide({type, p.input}, piece * images, images, room_in(type, images));
    const float* seen = with_border(image, inputs_of(s), s.in_h, s.in_w, b, Scratch::input);
    for (std::int64_t i = 0; i < outputs; ++i) {
      const std::int64_t output = piece % s.groups * outputs + i;
      std::array<float, kMostPlaneTaps> room;
      const float* weight = wide({type, p.weight}, output * filters, filters, room.data());
      const float bias = p.bias != nullptr ? wide({type, p.bias}, output) : 0;
      const Results out({type, p.output}, (piece * outputs + i) * pixels, pixels, room_out(type, pixels));
      if (!are_finite(weight, filters)) {
        plain_output(s, image, weight, bias, out.data());
        continue;
      }
      const Taps taps = image_taps(s, b, weight);
      sum_rows({seen, s.stride_h * b.row(), out.data(), s.out_w, s.out_w}, s.out_h, taps, bias);
    }
  });
}

void planes_input_grad(DType type, const Conv2dInputGradParams& p) {
  const Conv2dSizes& s = p.sizes;
  const GradBorder b(s);
  const std::int64_t inputs = inputs_of(s), grads = outputs_of(s) * s.out_h * s.out_w, pixels = s.in_h * s.in_w;
  const std::int64_t filters = outputs_of(s) * inputs * filter_of(s);
  for_each_piece(s, s.batch * s.groups, [&](std::int64_t piece) {
    const float* grad = wide({type, p.output_grad}, piece * grads, grads, room_in(type, grads));
    const float* seen = with_border(grad, outputs_of(s), s.out_h, s.out_w, b, Scratch::input);
    std::array<float, kMostPlaneTaps * kMostPlaneInputs> room;
    const float* weight = wide({type, p.weight}, piece % s.groups * filters, filters, room.data());
    const bool is_finite = are_finite(weight, filters);
    for (std::int64_t i = 0; i < inputs; ++i) {
      const Results out({type, p.input_grad}, (piece * inputs + i) * pixels, pixels, room_out(type, pixels));
      if (!is_finite) {
        plain_input_grad(s, grad, weight + i * filter_of(s), out.data());
        continue;
      }
      input_grad_of_plane(s, b, seen + b.before_h * b.row() + b.before_w, weight + i * filter_of(s), out.data());
    }
  });
}

void planes_weight_grad(DType type, const Conv2dWeightGradParams& p) {
  const Border b = image_border(p.sizes);
  for_pieces(p.sizes, p.sizes.out_channels, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t group = begin / outputs_of(p.sizes), last = std::min(end, (group + 1) * outputs_of(p.sizes));
      std::vector<WeightGrad> grads;  // of outputs that see the same
      for (; begin < last; ++begin) grads.emplace_back(type, p, b, begin);
      for (std::int64_t n = 0; n < p.sizes.batch; ++n) {
        const float* image = grads[0].bordered(n);
        for (WeightGrad& grad : grads) grad.add(n, image);
      }
      for (WeightGrad& grad : grads) grad.finish();
    }
  });
}

}  // namespace core::cpu::CORE_CPU_VARIANT
