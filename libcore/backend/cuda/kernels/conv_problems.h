#pragma once
// The three passes of a convolution as products of matrices, for one group: the image's patches are gathered while they
// are loaded. Thread safety: plain values. For conv.cu alone: multiply_tiles(grid, ConvForward<T>(params)).

#include "libcore/backend/cuda/kernels/tile_product.h"
#include "libcore/backend/nn_table.h"

namespace core::CORE_KERNELS {

/// Where a column or a step of a product is: its part of the place in the array that is gathered from, and in another.
struct ConvPlace {
  std::int64_t base, other;
  std::int64_t y, x;
};

/// How positions and taps of a convolution are counted.
struct ConvShape {
  Conv2dSizes s;
  std::int64_t group_in, group_out, taps;
  SizeDivider per_image, per_row;      // pixels of the image
  SizeDivider per_output, output_row;  // pixels of the output
  SizeDivider per_kernel, kernel_row;  // taps

  explicit ConvShape(const Conv2dSizes& sizes)
      : s(sizes),
        group_in(s.in_channels / s.groups),
        group_out(s.out_channels / s.groups),
        taps(s.kernel_h * s.kernel_w),
        per_image(s.in_h * s.in_w),
        per_row(s.in_w),
        per_output(s.out_h * s.out_w),
        output_row(s.out_w),
        per_kernel(taps),
        kernel_row(s.kernel_w) {}

  CORE_HD std::int64_t image() const { return s.in_h * s.in_w; }
  CORE_HD std::int64_t output() const { return s.out_h * s.out_w; }

  /// The window of output pixel i, counted through the batch; `other`: where the pixel is in the output.
  CORE_BODY ConvPlace window(std::int64_t i) const {
    const auto at = per_output.divide(i);
    const auto pixel = output_row.divide(at.remainder);
    return {at.quotient * s.in_channels * image(), at.quotient * s.out_channels * output() + at.remainder,
            pixel.quotient * s.stride_h - s.pad_top, pixel.remainder * s.stride_w - s.pad_left};
  }
  /// Tap i of a window, counted through the group's channels; `other`: i.
  CORE_BODY ConvPlace tap(std::int64_t i) const {
    const auto at = per_kernel.divide(i);
    const auto tap = kernel_row.divide(at.remainder);
    return {at.quotient * image(), i, tap.quotient * s.dilation_h, tap.remainder * s.dilation_w};
  }
  template <class T>
  CORE_BODY Computed<T> input_at(const T* input, const ConvPlace& window, const ConvPlace& tap) const {
    const std::int64_t y = window.y + tap.y, x = window.x + tap.x;
    if (y < 0 || y >= s.in_h || x < 0 || x >= s.in_w) return 0;
    return widen(input[window.base + tap.base + y * s.in_w + x]);
  }

  /// Pixel i of the image, counted through the batch; `base`: its item in the output; `other`: where it is in the
  /// image.
  CORE_BODY ConvPlace pixel(std::int64_t i) const {
    const auto at = per_image.divide(i);
    const auto pixel = per_row.divide(at.remainder);
    return {at.quotient * s.out_channels * output(), at.quotient * s.in_channels * image() + at.remainder,
            pixel.quotient + s.pad_top, pixel.remainder + s.pad_left};
  }
  /// Tap i, counted through the group's output channels, seen from a pixel; `other`: where it is in the weight.
  CORE_BODY ConvPlace tap_back(std::int64_t i) const {
    const auto at = per_kernel.divide(i);
    const auto tap = kernel_row.divide(at.remainder);
    return {at.quotient * output(), at.quotient * group_in * taps + at.remainder, tap.quotient * s.dilation_h,
            tap.remainder * s.dilation_w};
  }
  /// The output whose window sees the pixel through the tap, or 0.
  template <class T>
  CORE_BODY Computed<T> output_at(const T* output_grad, const ConvPlace& pixel, const ConvPlace& tap) const {
    std::int64_t y = pixel.y - tap.y, x = pixel.x - tap.x;
    if (y < 0 || x < 0 || !divides(s.stride_h, y) || !divides(s.stride_w, x)) return 0;
    if (y >= s.out_h || x >= s.out_w) return 0;
    return widen(output_grad[pixel.base + tap.base + y * s.out_w + x]);
  }

 private:
  CORE_BODY static bool divides(std::int64_t stride, std::int64_t& at) {
    if (stride == 1) return true;
    const auto n = static_cast<std::uint32_t>(at), by = static_cast<std::uint32_t>(stride);
    at = n / by;
    return n % by == 0;
  }
};

/// output (channels x pixels) = weight (channels x taps) * patches (taps x pixels) + bias.
template <class T>
struct ConvForward {
  using Element = T;
  using Sum = Computed<T>;
  using Column = ConvPlace;
  using Step = ConvPlace;
  static constexpr bool kBAlongDepth = false;
  ConvShape shape;
  std::int64_t rows, columns, depth;
  const T *input, *weight, *bias;
  T* output;

  explicit ConvForward(const Conv2dParams& p)
      : shape(p.sizes),
        rows(shape.group_out),
        columns(shape.s.batch * shape.output()),
        depth(shape.group_in * shape.taps),
        input(static_cast<const T*>(p.input)),
        weight(static_cast<const T*>(p.weight)),
        bias(static_cast<const T*>(p.bias)),
        output(static_cast<T*>(p.output)) {}
  CORE_BODY ConvForward of(std::int64_t group, std::int64_t) const {
    ConvForward one = *this;
    one.input += group * shape.group_in * shape.image();
    one.weight += group * rows * depth;
    one.output += group * rows * shape.output();
    if (bias != nullptr) one.bias += group * rows;
    return one;
  }
  CORE_BODY Column column(std::int64_t n) const { return shape.window(n); }
  CORE_BODY Step step(std::int64_t k) const { return shape.tap(k); }
  CORE_BODY Sum a(std::int64_t row, const Step& tap) const { return widen(weight[row * depth + tap.other]); }
  CORE_BODY Sum b(const Step& tap, const Column& window) const { return shape.input_at(input, window, tap); }
  CORE_BODY void finish(std::int64_t row, std::int64_t, const Column* windows, int count, const Four<Sum>& sums) const {
    const Sum shift = value_or(bias, row, 0);
    CORE_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i < count) output[windows[i].other + row * shape.output()] = narrow<T>(sums.values[i] + shift);
    }
  }
};

/// input_grad (channels x pixels) = weight^T (channels x taps) * outputs that see each pixel (taps x pixels).
template <class T>
struct ConvInputGrad {
  using Element = T;
  using Sum = Computed<T>;
  using Column = ConvPlace;
  using Step = ConvPlace;
  static constexpr bool kBAlongDepth = false;
  ConvShape shape;
  std::int64_t rows, columns, depth;
  const T *output_grad, *weight;
  T* input_grad;

  explicit ConvInputGrad(const Conv2dInputGradParams& p)
      : shape(p.sizes),
        rows(shape.group_in),
        columns(shape.s.batch * shape.image()),
        depth(shape.group_out * shape.taps),
        output_grad(static_cast<const T*>(p.output_grad)),
        weight(static_cast<const T*>(p.weight)),
        input_grad(static_cast<T*>(p.input_grad)) {}
  CORE_BODY ConvInputGrad of(std::int64_t group, std::int64_t) const {
    ConvInputGrad one = *this;
    one.output_grad += group * shape.group_out * shape.output();
    one.weight += group * shape.group_out * rows * shape.taps;
    one.input_grad += group * rows * shape.image();
    return one;
  }
  CORE_BODY Column column(std::int64_t n) const { return shape.pixel(n); }
  CORE_BODY Step step(std::int64_t k) const { return shape.tap_back(k); }
  CORE_BODY Sum a(std::int64_t row, const Step& tap) const { return widen(weight[tap.other + row * shape.taps]); }
  CORE_BODY Sum b(const Step& tap, const Column& pixel) const { return shape.output_at(output_grad, pixel, tap); }
  CORE_BODY void finish(std::int64_t row, std::int64_t, const Column* pixels, int count, const Four<Sum>& sums) const {
    CORE_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i < count) input_grad[pixels[i].other + row * shape.image()] = narrow<T>(sums.values[i]);
    }
  }
};

/// weight_grad (channels x taps) = output_grad (channels x pixels) * patches^T (pixels x taps). The parts of the depth
/// are sums of their own: parts_grad (parts, out_channels, taps).
template <class T>
struct ConvWeightGrad {
  using Element = T;
  using Sum = Computed<T>;
  using Column = ConvPlace;
  using Step = ConvPlace;
  static constexpr bool kBAlongDepth = true;
  ConvShape shape;
  std::int64_t rows, columns, depth;
  const T *output_grad, *input;
  T* weight_grad;   // where there is one part
  Sum* parts_grad;  // else

  explicit ConvWeightGrad(const Conv2dWeightGradParams& p)
      : shape(p.sizes),
        rows(shape.group_out),
        columns(shape.group_in * shape.taps),
        depth(shape.s.batch * shape.output()),
        output_grad(static_cast<const T*>(p.output_grad)),
        input(static_cast<const T*>(p.input)),
        weight_grad(static_cast<T*>(p.weight_grad)),
        parts_grad(nullptr) {}
  CORE_BODY ConvWeightGrad of(std::int64_t group, std::int64_t part) const {
    ConvWeightGrad one = *this;
    one.output_grad += group * rows * shape.output();
    one.input += group * shape.group_in * shape.image();
    one.weight_grad += group * rows * columns;
    if (parts_grad != nullptr) one.parts_grad += (part * shape.s.groups + group) * rows * columns;
    return one;
  }
  CORE_BODY Column column(std::int64_t n) const { return shape.tap(n); }
  CORE_BODY Step step(std::int64_t k) const { return shape.window(k); }
  CORE_BODY Sum a(std::int64_t row, const Step& window) const {
    return widen(output_grad[window.other + row * shape.output()]);
  }
  CORE_BODY Sum b(const Step& window, const Column& tap) const { return shape.input_at(input, window, tap); }
  CORE_BODY void finish(std::int64_t row, std::int64_t column, const Column*, int count, const Four<Sum>& sums) const {
    CORE_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i < count) put(row * columns + column + i, sums.values[i]);
    }
  }

 private:
  CORE_BODY void put(std::int64_t at, Sum sum) const {
    if (parts_grad != nullptr) {
      parts_grad[at] = sum;
    } else {
      weight_grad[at] = narrow<T>(sum);
    }
  }
};

}  // namespace core::CORE_KERNELS
