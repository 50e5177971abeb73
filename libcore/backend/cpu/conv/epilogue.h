#pragma once
// The epilogue of a convolution: what becomes of the sums of an output while they are still in registers, or in the
// nearest cache. One for all kernels of our own on images in blocked layout, and the activations of the pass that does
// the same to an image which no convolution makes (blocked_layout.cpp).
// In an anonymous namespace on purpose: see vector.h. Thread safety: pure functions.
// Use: const Epilogue epilogue(p, block); epilogue.put(sums, addend, out); epilogue.smooth(out, count);

#include <algorithm>

#include "libcore/backend/cpu/vector_math.h"
#include "libcore/backend/image_table.h"

namespace core::cpu {
namespace {

/// relu and relu6 as comparisons that leave a NaN alone.
template <ImageActivation kActivation>
CORE_INLINE Floats activated(Floats x) {
  if constexpr (kActivation == ImageActivation::relu || kActivation == ImageActivation::relu6) {
    x = x < 0 ? Floats{} : x;
  }
  if constexpr (kActivation == ImageActivation::relu6) x = x > 6 ? Floats{} + 6.0F : x;
  if constexpr (kActivation == ImageActivation::hardswish) {
    Floats gate = x + 3.0F;
    gate = gate < 0 ? Floats{} : gate > 6 ? Floats{} + 6.0F : gate;
    x = x * gate / 6.0F;
  }
  if constexpr (kActivation == ImageActivation::silu) x = x / (exp_of(-x) + 1.0F);
  return x;
}

/// Of one block of output channels.
class Epilogue {
 public:
  /// For channels 16 * block and on; past the last block it does nothing.
  Epilogue(const ImageConv& p, std::int64_t block)
      : maps_(p.epilogue.scale != nullptr), activation_(p.epilogue.activation) {
    const std::int64_t channel = block * kLanes, there = std::min(kLanes, p.sizes.out_channels - channel);
    if (there <= 0) return;
    if (p.bias != nullptr) bias_ = load_up_to<Floats>(p.bias + channel, there);
    if (!maps_) return;
    scale_ = load<Floats>(p.epilogue.scale + channel);
    shift_ = load<Floats>(p.epilogue.shift + channel);
  }

  /// (sums + bias) * scale + shift + addend, where there are such; addend: of this vector, or null.
  CORE_INLINE Floats linear(Floats sums, const float* addend) const {
    sums += bias_;
    if (maps_) sums = sums * scale_ + shift_;
    if (addend != nullptr) sums += load<Floats>(addend);
    return sums;
  }

  /// Stores all of it but a smooth activation. Those need registers that the sums of a kernel take, so that they follow
  /// when these are stored: smooth().
  CORE_INLINE void put(const Floats& sums, const float* addend, float* out) const {
    Floats x = linear(sums, addend);
    if (activation_ == ImageActivation::relu) x = activated<ImageActivation::relu>(x);
    if (activation_ == ImageActivation::relu6) x = activated<ImageActivation::relu6>(x);
    store(out, x);
  }

  /// The rest for `count` neighbouring vectors that were put.
  CORE_INLINE void smooth(float* out, std::int64_t count) const {
    if (activation_ != ImageActivation::hardswish && activation_ != ImageActivation::silu) return;
    for (std::int64_t i = 0; i < count; ++i) {
      Floats x[1] = {load<Floats>(out + i * kLanes)};
      activate(x);
      store(out + i * kLanes, x[0]);
    }
  }

  /// Whatever activation there is, where registers allow to do some side by side.
  template <int kCount>
  CORE_INLINE void activate(Floats (&x)[kCount]) const {
    switch (activation_) {
      case ImageActivation::none:
        return;
      case ImageActivation::relu:
        return activate_all<ImageActivation::relu>(x);
      case ImageActivation::relu6:
        return activate_all<ImageActivation::relu6>(x);
      case ImageActivation::hardswish:
        return activate_all<ImageActivation::hardswish>(x);
      case ImageActivation::silu:
        return activate_all<ImageActivation::silu>(x);
    }
  }

 private:
  template <ImageActivation kActivation, int kCount>
  CORE_INLINE static void activate_all(Floats (&x)[kCount]) {
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) x[i] = activated<kActivation>(x[i]);
  }

  Floats bias_{}, scale_{}, shift_{};
  bool maps_;
  ImageActivation activation_;
};

}  // namespace
}  // namespace core::cpu
