#pragma once
// Options of modules, optimizers and loaders by setters, in any order, as libtorch's programs write them: for what has
// parameters or shapes, a line of torch::nn, torch::optim or torch::data is one of core::nn, core::optim or core::data.
// Arguments that stand by place have no setters, but for DropoutOptions::p. Each stands for the struct of the same
// fields, which designators fill: core.h does not include this. Thread safety: plain values.
// Use: core::nn::Conv2d conv(core::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false));
//      core::optim::Adam optimizer(conv.parameters(), core::optim::AdamOptions(1e-3).weight_decay(0.1));

#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "libcore/data/loader.h"
#include "libcore/module/attention.h"
#include "libcore/module/conv.h"
#include "libcore/module/conv_nd.h"
#include "libcore/module/dropout.h"
#include "libcore/module/embedding.h"
#include "libcore/module/image.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/pooling.h"
#include "libcore/module/recurrent.h"
#include "libcore/module/transformer.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/adaptive.h"
#include "libcore/optim/lbfgs.h"
#include "libcore/optim/sgd.h"

namespace core::detail {

/// The arguments of a module that stand by place, and the struct of the others.
template <class Fields, class... Places>
class Settings {
 public:
  explicit Settings(Places... places) : places_(std::move(places)...) {}

 protected:
  template <class Module>
  Module made() const {
    return std::apply([this](const Places&... places) { return Module(places..., fields_); }, places_);
  }
  Fields fields_{};
  std::tuple<Places...> places_;
};

}  // namespace core::detail

// A setter of one field; what becomes of the whole.
#define CORE_SET(name)                       \
  auto& name(decltype(fields_.name) value) { \
    fields_.name = std::move(value);         \
    return *this;                            \
  }
#define CORE_MAKES(Module)                \
  operator Module() const {               \
    return this->template made<Module>(); \
  }  // NOLINT(google-explicit-constructor)
#define CORE_GIVES(Fields)  \
  operator Fields() const { \
    return fields_;         \
  }  // NOLINT(google-explicit-constructor)
#define CORE_SET_TYPE CORE_SET(dtype) CORE_SET(device)
// A pair, as libtorch's type of it too: std::make_tuple(0.9, 0.999).
#define CORE_SET_BETAS                                    \
  template <class First, class Second>                    \
  auto& betas(const std::tuple<First, Second>& two) {     \
    fields_.betas = {std::get<0>(two), std::get<1>(two)}; \
    return *this;                                         \
  }                                                       \
  CORE_SET(betas)

// Lists of macros in lines as they fit.
// clang-format off
namespace core::nn {

using core::AvgPool1d, core::AvgPool2d, core::AvgPool3d, core::MaxPool1d, core::MaxPool2d, core::MaxPool3d;
using core::BatchNorm1d, core::BatchNorm2d, core::BatchNorm3d, core::GroupNorm, core::LayerNorm;
using core::Conv1d, core::Conv2d, core::Conv3d, core::ConvTranspose1d, core::ConvTranspose2d, core::ConvTranspose3d;
using core::Dropout, core::Dropout2d, core::Dropout3d, core::Embedding, core::EmbeddingBag, core::Upsample;
using core::GRU, core::GRUCell, core::LSTM, core::LSTMCell, core::RNN, core::RNNCell;
using core::InstanceNorm1d, core::InstanceNorm2d, core::InstanceNorm3d, core::Bilinear, core::Linear;
using core::MultiheadAttention, core::TransformerDecoderLayer, core::TransformerEncoderLayer;

/// (in_features, out_features)
struct LinearOptions : core::detail::Settings<core::LinearOptions, std::int64_t, std::int64_t> {
  using Settings::Settings;
  CORE_SET(bias) CORE_SET_TYPE CORE_MAKES(Linear)
};
/// (in1_features, in2_features, out_features)
struct BilinearOptions : core::detail::Settings<core::LinearOptions, std::int64_t, std::int64_t, std::int64_t> {
  using Settings::Settings;
  CORE_SET(bias) CORE_SET_TYPE CORE_MAKES(Bilinear)
};

/// (in_channels, out_channels, kernel_size)
struct Conv2dOptions : core::detail::Settings<Conv2dLayerOptions, std::int64_t, std::int64_t, Size2> {
  using Settings::Settings;
  CORE_SET(stride) CORE_SET(padding) CORE_SET(dilation) CORE_SET(groups) CORE_SET(bias) CORE_SET(padding_mode)
  CORE_SET_TYPE CORE_MAKES(Conv2d)
};
/// The same of one and three dimensions.
template <class Module>
struct ConvNdOptions : core::detail::Settings<ConvLayerOptions, std::int64_t, std::int64_t, Shape> {
  using Settings::Settings;
  CORE_SET(stride) CORE_SET(padding) CORE_SET(dilation) CORE_SET(groups) CORE_SET(bias) CORE_SET(padding_mode)
  CORE_SET_TYPE CORE_MAKES(Module)
};
using Conv1dOptions = ConvNdOptions<Conv1d>;
using Conv3dOptions = ConvNdOptions<Conv3d>;
template <class Module>
struct ConvTransposeNdOptions : core::detail::Settings<ConvLayerOptions, std::int64_t, std::int64_t, Shape> {
  using Settings::Settings;
  CORE_SET(stride) CORE_SET(padding) CORE_SET(output_padding) CORE_SET(dilation) CORE_SET(groups) CORE_SET(bias)
  CORE_SET_TYPE CORE_MAKES(Module)
};
using ConvTranspose1dOptions = ConvTransposeNdOptions<ConvTranspose1d>;
using ConvTranspose2dOptions = ConvTransposeNdOptions<ConvTranspose2d>;
using ConvTranspose3dOptions = ConvTransposeNdOptions<ConvTranspose3d>;

/// (kernel_size)
template <class Module, class Fields, class Kernel>
struct MaxPoolOptionsOf : core::detail::Settings<Fields, Kernel> {
  using core::detail::Settings<Fields, Kernel>::Settings;
  using core::detail::Settings<Fields, Kernel>::fields_;
  CORE_SET(stride) CORE_SET(padding) CORE_SET(dilation) CORE_SET(ceil_mode) CORE_MAKES(Module)
};
using MaxPool1dOptions = MaxPoolOptionsOf<MaxPool1d, MaxPoolOptions, Shape>;
using MaxPool2dOptions = MaxPoolOptionsOf<MaxPool2d, core::MaxPool2dOptions, Size2>;
using MaxPool3dOptions = MaxPoolOptionsOf<MaxPool3d, MaxPoolOptions, Shape>;
template <class Module, class Fields, class Kernel>
struct AvgPoolOptionsOf : core::detail::Settings<Fields, Kernel> {
  using core::detail::Settings<Fields, Kernel>::Settings;
  using core::detail::Settings<Fields, Kernel>::fields_;
  CORE_SET(stride) CORE_SET(padding) CORE_SET(ceil_mode) CORE_SET(count_include_pad) CORE_SET(divisor_override)
  CORE_MAKES(Module)
};
using AvgPool1dOptions = AvgPoolOptionsOf<AvgPool1d, AvgPoolOptions, Shape>;
using AvgPool2dOptions = AvgPoolOptionsOf<AvgPool2d, core::AvgPool2dOptions, Size2>;
using AvgPool3dOptions = AvgPoolOptionsOf<AvgPool3d, AvgPoolOptions, Shape>;

/// (num_features)
struct BatchNormOptions : core::detail::Settings<core::BatchNormOptions, std::int64_t> {
  using Settings::Settings;
  CORE_SET(eps) CORE_SET(momentum) CORE_SET(affine) CORE_SET(track_running_stats) CORE_SET(bias) CORE_SET_TYPE
  CORE_MAKES(BatchNorm1d) CORE_MAKES(BatchNorm2d) CORE_MAKES(BatchNorm3d)
};
using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;
using BatchNorm3dOptions = BatchNormOptions;
struct InstanceNormOptions : core::detail::Settings<core::InstanceNormOptions, std::int64_t> {
  using Settings::Settings;
  CORE_SET(eps) CORE_SET(momentum) CORE_SET(affine) CORE_SET(track_running_stats) CORE_SET(bias) CORE_SET_TYPE
  CORE_MAKES(InstanceNorm1d) CORE_MAKES(InstanceNorm2d) CORE_MAKES(InstanceNorm3d)
};
using InstanceNorm1dOptions = InstanceNormOptions;
using InstanceNorm2dOptions = InstanceNormOptions;
using InstanceNorm3dOptions = InstanceNormOptions;
/// (normalized_shape)
struct LayerNormOptions : core::detail::Settings<core::LayerNormOptions, Shape> {
  using Settings::Settings;
  explicit LayerNormOptions(std::initializer_list<std::int64_t> shape) : Settings(Shape(shape)) {}
  CORE_SET(eps) CORE_SET(elementwise_affine) CORE_SET(bias) CORE_SET_TYPE CORE_MAKES(LayerNorm)
};
/// (num_groups, num_channels)
struct GroupNormOptions : core::detail::Settings<core::GroupNormOptions, std::int64_t, std::int64_t> {
  using Settings::Settings;
  CORE_SET(eps) CORE_SET(affine) CORE_SET(bias) CORE_SET_TYPE CORE_MAKES(GroupNorm)
};

/// (num_embeddings, embedding_dim)
struct EmbeddingOptions : core::detail::Settings<core::EmbeddingOptions, std::int64_t, std::int64_t> {
  using Settings::Settings;
  CORE_SET(padding_idx) CORE_SET(max_norm) CORE_SET(norm_type) CORE_SET(scale_grad_by_freq) CORE_SET(sparse)
  CORE_SET_TYPE CORE_MAKES(Embedding)
};
struct EmbeddingBagOptions : core::detail::Settings<core::EmbeddingBagOptions, std::int64_t, std::int64_t> {
  using Settings::Settings;
  CORE_SET(max_norm) CORE_SET(norm_type) CORE_SET(scale_grad_by_freq) CORE_SET(mode) CORE_SET(sparse)
  CORE_SET(include_last_offset) CORE_SET(padding_idx) CORE_SET_TYPE CORE_MAKES(EmbeddingBag)
};

/// (p), 0.5 unless given.
struct DropoutOptions : core::detail::Settings<core::DropoutOptions, double> {
  explicit DropoutOptions(double p = 0.5) : Settings(p) {}
  DropoutOptions& p(double value) {
    std::get<0>(places_) = value;
    return *this;
  }
  CORE_SET(inplace) CORE_MAKES(Dropout) CORE_MAKES(Dropout2d) CORE_MAKES(Dropout3d)
};

/// (input_size, hidden_size)
template <class Module>
struct RecurrentOptionsOf : core::detail::Settings<RecurrentOptions, std::int64_t, std::int64_t> {
  using Settings::Settings;
  CORE_SET(num_layers) CORE_SET(bias) CORE_SET(batch_first) CORE_SET(dropout) CORE_SET(bidirectional)
  CORE_SET(nonlinearity) CORE_SET(proj_size) CORE_SET_TYPE CORE_MAKES(Module)
};
using RNNOptions = RecurrentOptionsOf<RNN>;
using LSTMOptions = RecurrentOptionsOf<LSTM>;
using GRUOptions = RecurrentOptionsOf<GRU>;
template <class Module>
struct CellOptionsOf : core::detail::Settings<CellOptions, std::int64_t, std::int64_t> {
  using Settings::Settings;
  CORE_SET(bias) CORE_SET(nonlinearity) CORE_SET_TYPE CORE_MAKES(Module)
};
using RNNCellOptions = CellOptionsOf<RNNCell>;
using LSTMCellOptions = CellOptionsOf<LSTMCell>;
using GRUCellOptions = CellOptionsOf<GRUCell>;

/// (embed_dim, num_heads)
struct MultiheadAttentionOptions : core::detail::Settings<AttentionLayerOptions, std::int64_t, std::int64_t> {
  using Settings::Settings;
  CORE_SET(dropout) CORE_SET(bias) CORE_SET(add_bias_kv) CORE_SET(add_zero_attn) CORE_SET(kdim) CORE_SET(vdim)
  CORE_SET(batch_first) CORE_SET_TYPE CORE_MAKES(MultiheadAttention)
};
/// (d_model, nhead)
template <class Module>
struct TransformerLayerOptions : core::detail::Settings<TransformerOptions, std::int64_t, std::int64_t> {
  using Settings::Settings;
  CORE_SET(dim_feedforward) CORE_SET(dropout) CORE_SET(activation) CORE_SET(layer_norm_eps) CORE_SET(batch_first)
  CORE_SET(norm_first) CORE_SET(bias) CORE_SET_TYPE CORE_MAKES(Module)
};
using TransformerEncoderLayerOptions = TransformerLayerOptions<TransformerEncoderLayer>;
using TransformerDecoderLayerOptions = TransformerLayerOptions<TransformerDecoderLayer>;

struct UpsampleOptions : core::detail::Settings<InterpolateOptions> {
  using Settings::Settings;
  CORE_SET(size) CORE_SET(scale_factor) CORE_SET(mode) CORE_SET(align_corners) CORE_MAKES(Upsample)
};

}  // namespace core::nn

namespace core::optim {

using core::Adagrad, core::Adam, core::AdamW, core::LBFGS, core::RMSprop, core::SGD;

/// Each begins with its learning rate.
struct SGDOptions : core::detail::Settings<core::SGDOptions> {
  explicit SGDOptions(Scalar rate) { fields_.lr = rate; }
  CORE_SET(lr) CORE_SET(momentum) CORE_SET(dampening) CORE_SET(weight_decay) CORE_SET(nesterov) CORE_SET(maximize)
  CORE_GIVES(core::SGDOptions)
};
struct AdamOptions : core::detail::Settings<core::AdamOptions> {
  explicit AdamOptions(Scalar rate = 1e-3) { fields_.lr = rate; }
  CORE_SET(lr) CORE_SET_BETAS CORE_SET(eps) CORE_SET(weight_decay) CORE_SET(amsgrad) CORE_SET(maximize)
  CORE_SET(capturable) CORE_GIVES(core::AdamOptions)
};
struct AdamWOptions : core::detail::Settings<core::AdamWOptions> {
  explicit AdamWOptions(Scalar rate = 1e-3) { fields_.lr = rate; }
  CORE_SET(lr) CORE_SET_BETAS CORE_SET(eps) CORE_SET(weight_decay) CORE_SET(amsgrad) CORE_SET(maximize)
  CORE_SET(capturable) CORE_GIVES(core::AdamWOptions)
};
struct RMSpropOptions : core::detail::Settings<core::RMSpropOptions> {
  explicit RMSpropOptions(Scalar rate = 1e-2) { fields_.lr = rate; }
  CORE_SET(lr) CORE_SET(alpha) CORE_SET(eps) CORE_SET(weight_decay) CORE_SET(momentum) CORE_SET(centered)
  CORE_SET(maximize) CORE_GIVES(core::RMSpropOptions)
};
struct AdagradOptions : core::detail::Settings<core::AdagradOptions> {
  explicit AdagradOptions(Scalar rate = 1e-2) { fields_.lr = rate; }
  CORE_SET(lr) CORE_SET(lr_decay) CORE_SET(weight_decay) CORE_SET(initial_accumulator_value) CORE_SET(eps)
  CORE_SET(maximize) CORE_GIVES(core::AdagradOptions)
};
struct LBFGSOptions : core::detail::Settings<core::LBFGSOptions> {
  explicit LBFGSOptions(Scalar rate = 1) { fields_.lr = rate; }
  CORE_SET(lr) CORE_SET(max_iter) CORE_SET(max_eval) CORE_SET(tolerance_grad) CORE_SET(tolerance_change)
  CORE_SET(history_size) CORE_SET(line_search_fn) CORE_SET(maximize) CORE_GIVES(core::LBFGSOptions)
};

}  // namespace core::optim

namespace core::data {

struct DataLoaderOptions : core::detail::Settings<core::DataLoaderOptions> {
  explicit DataLoaderOptions(std::int64_t samples = 1) { fields_.batch_size = samples; }
  CORE_SET(batch_size) CORE_SET(shuffle) CORE_SET(sampler) CORE_SET(batch_sampler) CORE_SET(num_workers)
  CORE_SET(drop_last) CORE_SET(timeout) CORE_SET(worker_init_fn) CORE_SET(generator) CORE_SET(prefetch_factor)
  CORE_SET(persistent_workers) CORE_SET(pin_memory) CORE_GIVES(core::DataLoaderOptions)
  /// libtorch's name of num_workers.
  DataLoaderOptions& workers(int count) { return num_workers(count); }
};

}  // namespace core::data
// clang-format on

#undef CORE_SET
#undef CORE_SET_TYPE
#undef CORE_SET_BETAS
#undef CORE_MAKES
#undef CORE_GIVES
