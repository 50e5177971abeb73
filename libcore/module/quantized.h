#pragma once
// Linear and LSTM layers with 8-bit weights, for evaluation on the CPU: as torch.ao.quantization.quantize_dynamic makes
// them (qint8 weights with one scale a matrix; inputs become 7-bit numbers at each call, by their smallest and
// largest), with its numbers of the engine fbgemm. Nothing here has gradients. Thread safety: as Module. Use:
// core::DynamicQuantizedLinear fast(core::Linear(5, 2)); core::Tensor y = fast(x);

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "libcore/module/linear.h"
#include "libcore/module/module.h"
#include "libcore/module/recurrent.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// A matrix (out, in) as 8-bit numbers: value = scale * number.
struct QuantizedMatrix {
  Tensor numbers = {};  ///< i8
  Tensor scale = {};    ///< 0-dim f32
};
/// The largest magnitude becomes 127.5. Error(type) unless weight is a matrix of f32 on the CPU.
QuantizedMatrix quantize_symmetric(const Tensor& weight);
/// x @ weight^T + bias; x: (*, in), f32, becomes 7-bit numbers for it. Error(runtime) for another type or size.
Tensor linear_dynamic(const Tensor& x, const QuantizedMatrix& weight, const Tensor& bias = {});

/// In place of a Linear. Its state has buffers weight (i8), weight_scale and bias.
struct DynamicQuantizedLinear : ModuleOf<DynamicQuantizedLinear> {
  std::int64_t in_features;
  std::int64_t out_features;
  QuantizedMatrix weight;
  Tensor bias;  ///< undefined when there is none

  explicit DynamicQuantizedLinear(const Linear& linear);
  void members(Members& m) override;
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return linear_dynamic(x, weight, bias); }
};

/// In place of an LSTM without projections, for inputs that are not packed. Its state has, for each layer and
/// direction, the buffers of the LSTM's names, weights as i8, with "_scale" behind for their scales.
struct DynamicQuantizedLSTM : ModuleOf<DynamicQuantizedLSTM> {
  std::int64_t input_size;
  std::int64_t hidden_size;
  RecurrentOptions options;

  /// Error(not_implemented) for one with projections.
  explicit DynamicQuantizedLSTM(const LSTM& lstm);
  void members(Members& m) override;
  std::string extra_repr() const override;
  std::tuple<Tensor, std::tuple<Tensor, Tensor>> forward(const Tensor& x,
                                                         const std::tuple<Tensor, Tensor>& state = {}) const;

 private:
  struct Layer {
    std::string suffix = {};  ///< "_l0", "_l0_reverse"
    QuantizedMatrix w_ih = {}, w_hh = {};
    Tensor b_ih = {}, b_hh = {};
  };
  struct State {
    Tensor h, c;
  };
  /// (time, batch, features) through one layer in one direction; `state` becomes the last one.
  static Tensor run(const Layer& layer, const Tensor& x, State& state, bool reverse);
  std::vector<Layer> layers_;
};

/// Puts such layers in the place of every Linear and LSTM of the model, at any depth, and says how many. These children
/// have to be held by a container (Sequential, ModuleList) or by std::shared_ptr<core::Module>. Error naming the
/// child, before anything is changed: type for one that is part of a struct or is not f32 on the CPU, not_implemented
/// for an LSTM with projections.
std::int64_t quantize_dynamic(Module& model);

}  // namespace core
