#pragma once
// Conv1d, Conv3d, the transposed convolutions, Unfold and Fold. As torch.nn's modules of the same names; Conv2d is in
// conv.h. Sizes are lists or one number for all dimensions: 3, {3, 5, 5}.
// Thread safety: as Module. Use: core::Conv1d conv(16, 32, 3, {.padding = 1}); core::Tensor y = conv(x);

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "libcore/module/module.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/pad.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct ConvLayerOptions {
  Shape stride = {};      ///< 1
  Shape padding = {};     ///< 0
  std::string rule = {};  ///< "same" or "valid" instead of padding
  Shape dilation = {};    ///< 1
  std::int64_t groups = 1;
  bool bias = true;
  std::string padding_mode = "zeros";
  Shape output_padding = {};  ///< 0; of transposed convolutions alone
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// What these convolutions share. weight: (out, in / groups, k...), or (in, out / groups, k...) when transposed.
struct ConvState {
  std::int64_t in_channels;
  std::int64_t out_channels;
  Shape kernel_size, stride, padding, dilation, output_padding;
  std::int64_t groups;
  std::string rule;
  PaddingMode padding_mode;
  Parameter weight;
  Parameter bias;  ///< undefined when there is none

  void reset_parameters();

 protected:
  enum class Kind { plain, transposed };
  struct Channels {
    std::int64_t in, out;
  };
  /// Errors (value): PyTorch's texts for groups, padding and padding_mode.
  ConvState(std::size_t rank, Kind kind, Channels channels, const Shape& kernel, const ConvLayerOptions& given);
  void list(Members& m);
  std::string describe() const;
  /// x with its border filled as padding_mode says, and what is left for the convolution to pad.
  Tensor bordered(const Tensor& x, ConvOptions& options) const;
  ConvOptions plain_options() const;
  ConvTransposeOptions transposed_options() const;
};

/// Puts the weights of all Conv2d and ConvTranspose2d (of all Conv3d and ConvTranspose3d) in a module, itself
/// included, into this format.
void convert_conv2d_weight_memory_format(Module& module, MemoryFormat format);
void convert_conv3d_weight_memory_format(Module& module, MemoryFormat format);

/// x: (N, in, L) or (in, L).
struct Conv1d : ModuleOf<Conv1d>, ConvState {
  Conv1d(std::int64_t in, std::int64_t out, const Shape& kernel, const ConvLayerOptions& given = {})
      : ConvState(1, Kind::plain, {in, out}, kernel, given) {}
  template <std::integral Stride>
  Conv1d(std::int64_t in, std::int64_t out, const Shape& kernel, Stride step, std::int64_t pads = 0)
      : Conv1d(in, out, kernel, ConvLayerOptions{.stride = step, .padding = pads}) {}
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const;
};

/// x: (N, in, D, H, W) or (in, D, H, W).
struct Conv3d : ModuleOf<Conv3d>, ConvState {
  Conv3d(std::int64_t in, std::int64_t out, const Shape& kernel, const ConvLayerOptions& given = {})
      : ConvState(3, Kind::plain, {in, out}, kernel, given) {}
  template <std::integral Stride>
  Conv3d(std::int64_t in, std::int64_t out, const Shape& kernel, Stride step, std::int64_t pads = 0)
      : Conv3d(in, out, kernel, ConvLayerOptions{.stride = step, .padding = pads}) {}
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const;
};

struct ConvTranspose1d : ModuleOf<ConvTranspose1d>, ConvState {
  ConvTranspose1d(std::int64_t in, std::int64_t out, const Shape& kernel, const ConvLayerOptions& given = {})
      : ConvState(1, Kind::transposed, {in, out}, kernel, given) {}
  template <std::integral Stride>
  ConvTranspose1d(std::int64_t in, std::int64_t out, const Shape& kernel, Stride step, std::int64_t pads = 0)
      : ConvTranspose1d(in, out, kernel, ConvLayerOptions{.stride = step, .padding = pads}) {}
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const { return conv_transpose1d(x, weight, bias, transposed_options()); }
};

struct ConvTranspose2d : ModuleOf<ConvTranspose2d>, ConvState {
  ConvTranspose2d(std::int64_t in, std::int64_t out, const Shape& kernel, const ConvLayerOptions& given = {})
      : ConvState(2, Kind::transposed, {in, out}, kernel, given) {}
  template <std::integral Stride>
  ConvTranspose2d(std::int64_t in, std::int64_t out, const Shape& kernel, Stride step, std::int64_t pads = 0)
      : ConvTranspose2d(in, out, kernel, ConvLayerOptions{.stride = step, .padding = pads}) {}
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const { return conv_transpose2d(x, weight, bias, transposed_options()); }
};

struct ConvTranspose3d : ModuleOf<ConvTranspose3d>, ConvState {
  ConvTranspose3d(std::int64_t in, std::int64_t out, const Shape& kernel, const ConvLayerOptions& given = {})
      : ConvState(3, Kind::transposed, {in, out}, kernel, given) {}
  template <std::integral Stride>
  ConvTranspose3d(std::int64_t in, std::int64_t out, const Shape& kernel, Stride step, std::int64_t pads = 0)
      : ConvTranspose3d(in, out, kernel, ConvLayerOptions{.stride = step, .padding = pads}) {}
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const { return conv_transpose3d(x, weight, bias, transposed_options()); }
};

/// Patches of an image as columns.
struct Unfold : ModuleOf<Unfold> {
  Shape kernel_size;
  PatchOptions options;
  explicit Unfold(std::initializer_list<std::int64_t> kernel, const PatchOptions& given = {})
      : Unfold(Shape(kernel), given) {}
  explicit Unfold(const Shape& kernel, const PatchOptions& given = {}) : kernel_size(kernel), options(given) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return unfold(x, kernel_size, options); }
};

/// The sum of patches as an image.
struct Fold : ModuleOf<Fold> {
  Shape output_size;
  Shape kernel_size;
  PatchOptions options;
  Fold(const Shape& output, const Shape& kernel, const PatchOptions& given = {})
      : output_size(output), kernel_size(kernel), options(given) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return fold(x, output_size, kernel_size, options); }
};

// Made once, in the source of this header.
extern template class ModuleOf<Conv1d>;
extern template class ModuleOf<Conv3d>;
extern template class ModuleOf<ConvTranspose1d>;
extern template class ModuleOf<ConvTranspose2d>;
extern template class ModuleOf<ConvTranspose3d>;
extern template class ModuleOf<Unfold>;
extern template class ModuleOf<Fold>;

}  // namespace core
