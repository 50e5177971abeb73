#pragma once
// Pooling modules of one and three dimensions, adaptive, power-average, fractional and unpooling. As torch.nn's modules
// of the same names; the common 2-D ones are in conv.h. Maxima give their positions by with_indices(). Thread safety:
// as Module. Use: core::MaxPool1d pool(2); core::Tensor y = pool(x);

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "libcore/module/module.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct MaxPool1d : ModuleOf<MaxPool1d> {
  Shape kernel_size;
  MaxPoolOptions options;
  explicit MaxPool1d(std::initializer_list<std::int64_t> kernel, const MaxPoolOptions& given = {})
      : MaxPool1d(Shape(kernel), given) {}
  explicit MaxPool1d(const Shape& kernel, const MaxPoolOptions& given = {}) : kernel_size(kernel), options(given) {}
  template <std::integral Stride>
  MaxPool1d(const Shape& kernel, Stride step, std::int64_t pads = 0)
      : MaxPool1d(kernel, MaxPoolOptions{.stride = step, .padding = pads}) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return max_pool1d(x, kernel_size, options); }
  ValuesIndices with_indices(const Tensor& x) const { return max_pool1d_with_indices(x, kernel_size, options); }
};

struct MaxPool3d : ModuleOf<MaxPool3d> {
  Shape kernel_size;
  MaxPoolOptions options;
  explicit MaxPool3d(std::initializer_list<std::int64_t> kernel, const MaxPoolOptions& given = {})
      : MaxPool3d(Shape(kernel), given) {}
  explicit MaxPool3d(const Shape& kernel, const MaxPoolOptions& given = {}) : kernel_size(kernel), options(given) {}
  template <std::integral Stride>
  MaxPool3d(const Shape& kernel, Stride step, std::int64_t pads = 0)
      : MaxPool3d(kernel, MaxPoolOptions{.stride = step, .padding = pads}) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return max_pool3d(x, kernel_size, options); }
  ValuesIndices with_indices(const Tensor& x) const { return max_pool3d_with_indices(x, kernel_size, options); }
};

struct AvgPool1d : ModuleOf<AvgPool1d> {
  Shape kernel_size;
  AvgPoolOptions options;
  explicit AvgPool1d(std::initializer_list<std::int64_t> kernel, const AvgPoolOptions& given = {})
      : AvgPool1d(Shape(kernel), given) {}
  explicit AvgPool1d(const Shape& kernel, const AvgPoolOptions& given = {}) : kernel_size(kernel), options(given) {}
  template <std::integral Stride>
  AvgPool1d(const Shape& kernel, Stride step, std::int64_t pads = 0)
      : AvgPool1d(kernel, AvgPoolOptions{.stride = step, .padding = pads}) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return avg_pool1d(x, kernel_size, options); }
};

struct AvgPool3d : ModuleOf<AvgPool3d> {
  Shape kernel_size;
  AvgPoolOptions options;
  explicit AvgPool3d(std::initializer_list<std::int64_t> kernel, const AvgPoolOptions& given = {})
      : AvgPool3d(Shape(kernel), given) {}
  explicit AvgPool3d(const Shape& kernel, const AvgPoolOptions& given = {}) : kernel_size(kernel), options(given) {}
  template <std::integral Stride>
  AvgPool3d(const Shape& kernel, Stride step, std::int64_t pads = 0)
      : AvgPool3d(kernel, AvgPoolOptions{.stride = step, .padding = pads}) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return avg_pool3d(x, kernel_size, options); }
};

namespace detail {
/// "output_size=3", "output_size=(6, None)".
std::string adaptive_text(const AdaptiveSizes& sizes);
}  // namespace detail

struct AdaptiveAvgPool1d : ModuleOf<AdaptiveAvgPool1d> {
  std::int64_t output_size;
  explicit AdaptiveAvgPool1d(std::int64_t size) : output_size(size) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "output_size=" + std::to_string(output_size); }
  Tensor forward(const Tensor& x) const { return adaptive_avg_pool1d(x, output_size); }
};

struct AdaptiveAvgPool3d : ModuleOf<AdaptiveAvgPool3d> {
  AdaptiveSizes output_size;
  explicit AdaptiveAvgPool3d(AdaptiveSizes sizes) : output_size(std::move(sizes)) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return detail::adaptive_text(output_size); }
  Tensor forward(const Tensor& x) const { return adaptive_avg_pool3d(x, output_size); }
};

struct AdaptiveMaxPool1d : ModuleOf<AdaptiveMaxPool1d> {
  std::int64_t output_size;
  explicit AdaptiveMaxPool1d(std::int64_t size) : output_size(size) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "output_size=" + std::to_string(output_size); }
  Tensor forward(const Tensor& x) const { return adaptive_max_pool1d(x, output_size).values; }
  ValuesIndices with_indices(const Tensor& x) const { return adaptive_max_pool1d(x, output_size); }
};

struct AdaptiveMaxPool2d : ModuleOf<AdaptiveMaxPool2d> {
  AdaptiveSizes output_size;
  explicit AdaptiveMaxPool2d(AdaptiveSizes sizes) : output_size(std::move(sizes)) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return detail::adaptive_text(output_size); }
  Tensor forward(const Tensor& x) const { return adaptive_max_pool2d(x, output_size).values; }
  ValuesIndices with_indices(const Tensor& x) const { return adaptive_max_pool2d(x, output_size); }
};

struct AdaptiveMaxPool3d : ModuleOf<AdaptiveMaxPool3d> {
  AdaptiveSizes output_size;
  explicit AdaptiveMaxPool3d(AdaptiveSizes sizes) : output_size(std::move(sizes)) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return detail::adaptive_text(output_size); }
  Tensor forward(const Tensor& x) const { return adaptive_max_pool3d(x, output_size).values; }
  ValuesIndices with_indices(const Tensor& x) const { return adaptive_max_pool3d(x, output_size); }
};

/// What the power averages keep.
struct LpPoolState {
  Scalar norm_type;
  Shape kernel_size;
  LpPoolOptions options;

 protected:
  LpPoolState(Scalar p, const Shape& kernel, const LpPoolOptions& given)
      : norm_type(p), kernel_size(kernel), options(given) {}
  std::string describe() const;
};

struct LPPool1d : ModuleOf<LPPool1d>, LpPoolState {
  LPPool1d(Scalar p, const Shape& kernel, const LpPoolOptions& given = {}) : LpPoolState(p, kernel, given) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const { return lp_pool1d(x, norm_type.to_double(), kernel_size, options); }
};
struct LPPool2d : ModuleOf<LPPool2d>, LpPoolState {
  LPPool2d(Scalar p, const Shape& kernel, const LpPoolOptions& given = {}) : LpPoolState(p, kernel, given) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const { return lp_pool2d(x, norm_type.to_double(), kernel_size, options); }
};
struct LPPool3d : ModuleOf<LPPool3d>, LpPoolState {
  LPPool3d(Scalar p, const Shape& kernel, const LpPoolOptions& given = {}) : LpPoolState(p, kernel, given) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const { return lp_pool3d(x, norm_type.to_double(), kernel_size, options); }
};

/// What the unpoolings keep. Without an output size that of the smallest input that pools to x is taken.
struct UnpoolState {
  Shape kernel_size, stride, padding;

 protected:
  UnpoolState(std::size_t rank, const Shape& kernel, const Shape& step, const Shape& pads);
  std::string describe() const;
  Tensor unpooled(const Tensor& x, const Tensor& indices, const Shape& output_size) const;
};

template <class Derived, std::size_t Rank>
struct UnpoolModule : ModuleOf<Derived>, UnpoolState {
  explicit UnpoolModule(std::initializer_list<std::int64_t> kernel, const Shape& step = {})
      : UnpoolModule(Shape(kernel), step) {}
  explicit UnpoolModule(const Shape& kernel, const Shape& step = {}, const Shape& pads = {})
      : ModuleOf<Derived>(OnBehalf()), UnpoolState(Rank, kernel, step, pads) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x, const Tensor& indices, const Shape& output_size = {}) const {
    return unpooled(x, indices, output_size);
  }
};
struct MaxUnpool1d : UnpoolModule<MaxUnpool1d, 1> {
  using UnpoolModule::UnpoolModule;
};
struct MaxUnpool2d : UnpoolModule<MaxUnpool2d, 2> {
  using UnpoolModule::UnpoolModule;
};
struct MaxUnpool3d : UnpoolModule<MaxUnpool3d, 3> {
  using UnpoolModule::UnpoolModule;
};

struct FractionalMaxPool2d : ModuleOf<FractionalMaxPool2d> {
  Shape kernel_size;
  FractionalPoolOptions options;
  /// Errors(value): PyTorch's texts unless just one of size and ratio is given, and the ratio is between 0 and 1.
  FractionalMaxPool2d(const Shape& kernel, const FractionalPoolOptions& given);
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return fractional_max_pool2d(x, kernel_size, options).values; }
  ValuesIndices with_indices(const Tensor& x) const { return fractional_max_pool2d(x, kernel_size, options); }
};

struct FractionalMaxPool3d : ModuleOf<FractionalMaxPool3d> {
  Shape kernel_size;
  FractionalPoolOptions options;
  FractionalMaxPool3d(const Shape& kernel, const FractionalPoolOptions& given);
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return fractional_max_pool3d(x, kernel_size, options).values; }
  ValuesIndices with_indices(const Tensor& x) const { return fractional_max_pool3d(x, kernel_size, options); }
};

// Made once, in the source of this header.
extern template class ModuleOf<MaxPool1d>;
extern template class ModuleOf<MaxPool3d>;
extern template class ModuleOf<AvgPool1d>;
extern template class ModuleOf<AvgPool3d>;
extern template class ModuleOf<AdaptiveAvgPool1d>;
extern template class ModuleOf<AdaptiveAvgPool3d>;
extern template class ModuleOf<AdaptiveMaxPool1d>;
extern template class ModuleOf<AdaptiveMaxPool2d>;
extern template class ModuleOf<AdaptiveMaxPool3d>;
extern template class ModuleOf<LPPool1d>;
extern template class ModuleOf<LPPool2d>;
extern template class ModuleOf<LPPool3d>;
extern template class ModuleOf<MaxUnpool1d>;
extern template class ModuleOf<MaxUnpool2d>;
extern template class ModuleOf<MaxUnpool3d>;
extern template class ModuleOf<FractionalMaxPool2d>;
extern template class ModuleOf<FractionalMaxPool3d>;

}  // namespace core
