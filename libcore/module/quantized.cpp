#include "libcore/module/quantized.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <typeinfo>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/int8_product.h"
#include "libcore/base/error.h"
#include "libcore/module/detail/recurrent_state.h"
#include "libcore/module/members.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"

namespace core {
namespace {

constexpr int kMost = 127;  // of inputs: 7 bits, so that pairs of products fit into 16

/// How numbers of an input stand for values: (number - zero) * scale.
struct InputScale {
  float scale;
  std::int32_t zero;
};

/// Source: ChooseQuantizationParams of fbgemm, which PyTorch calls for the range 0 to 127.
InputScale scale_for(float low, float high) {
  constexpr float kLeast = 6.1e-5F;
  if (low > high) {
    throw Error(ErrorCode::runtime, "In ChooseQuantizationParams, min should be less than or equal to max");
  }
  low = std::min(low, 0.0F);
  high = std::max(high, 0.0F);
  double scale = (static_cast<double>(high) - static_cast<double>(low)) / kMost;
  if (static_cast<float>(scale) == 0.0F || std::isinf(1.0F / static_cast<float>(scale))) scale = 0.1;
  if (std::isinf(scale)) return {static_cast<float>(scale), 0};  // of an infinite input, which makes the result NaN
  if (scale < static_cast<double>(kLeast)) {
    const float before = static_cast<float>(scale);
    scale = static_cast<double>(kLeast);
    if (low == 0.0F) {
      high = kLeast * kMost;
    } else if (high == 0.0F) {
      low = -kLeast * kMost;
    } else {
      low *= kLeast / before;
      high *= kLeast / before;
    }
  }
  const double from_low = -static_cast<double>(low) / scale, from_high = kMost - static_cast<double>(high) / scale;
  const double low_error = -std::abs(static_cast<double>(low) / scale);
  const double high_error = kMost - std::abs(static_cast<double>(high) / scale);
  const double zero = std::clamp(low_error < high_error ? from_low : from_high, 0.0, static_cast<double>(kMost));
  return {static_cast<float>(scale), static_cast<std::int32_t>(std::nearbyint(zero))};
}

void check_input(const Tensor& x, std::int64_t in) {
  if (x.dtype() == DType::f32 && x.device().is_cpu() && x.dim() > 0 && x.size(-1) == in) return;
  throw Error(ErrorCode::runtime, "a quantized layer takes float32 on the CPU with " + std::to_string(in) +
                                      " features at the end, but got " + std::string(name(x.dtype())) + " " +
                                      to_list(x.sizes()) + " on " + x.device().str());
}

/// What int8_product() is to read is there.
void check_matrix(const QuantizedMatrix& weight, const Tensor& bias) {
  const std::int64_t n = weight.numbers.dim() == 2 ? weight.numbers.size(0) : -1;
  if (n < 0 || weight.numbers.dtype() != DType::i8 || weight.scale.numel() != 1) {
    throw Error(ErrorCode::runtime, "a quantized weight is a matrix of int8 with one scale, but got " +
                                        std::string(name(weight.numbers.dtype())) + " " +
                                        to_list(weight.numbers.sizes()) + " with " +
                                        std::to_string(weight.scale.numel()) + " scales");
  }
  if (bias.defined() && (bias.dtype() != DType::f32 || bias.numel() != n)) {
    throw Error(ErrorCode::runtime, "the bias of a quantized layer of " + std::to_string(n) +
                                        " outputs is a float32 each, but got " + std::string(name(bias.dtype())) + " " +
                                        to_list(bias.sizes()));
  }
}

/// A buffer of a module, as the list of members has it.
void list_matrix(Members& m, const std::string& name, QuantizedMatrix& matrix) {
  m.buffer(name, matrix.numbers).buffer(name + "_scale", matrix.scale);
}

}  // namespace

QuantizedMatrix quantize_symmetric(const Tensor& weight) {
  if (weight.dtype() != DType::f32 || weight.dim() != 2 || !weight.device().is_cpu()) {
    throw Error(ErrorCode::type, "what becomes 8-bit weights is a matrix of float32 on the CPU, but got " +
                                     std::string(name(weight.dtype())) + " " + to_list(weight.sizes()) + " on " +
                                     weight.device().str());
  }
  const Tensor dense = weight.detach().contiguous();
  const auto* values = dense.data<float>();
  const auto count = static_cast<std::size_t>(dense.numel());
  float most = 0;
  for (std::size_t i = 0; i < count; ++i) most = std::max(most, std::abs(values[i]));
  const float scale = std::max(most / (255.0F / 2), std::numeric_limits<float>::epsilon());
  const float inverse = 1.0F / scale;
  std::vector<std::int8_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<std::int8_t>(std::clamp(static_cast<int>(std::nearbyint(values[i] * inverse)), -128, 127));
  }
  return {from_values(std::span<const std::int8_t>(numbers), dense.sizes()),
          full({}, static_cast<double>(scale), {.dtype = DType::f32})};
}

Tensor linear_dynamic(const Tensor& x, const QuantizedMatrix& weight, const Tensor& bias) {
  const detail::OpScope scope("linear_dynamic", x, weight.numbers, bias);
  check_matrix(weight, bias);
  const std::int64_t n = weight.numbers.size(0), k = weight.numbers.size(1);
  check_input(x, k);
  Shape sizes = x.sizes();
  sizes[sizes.size() - 1] = n;
  const Tensor out = empty(sizes, {.dtype = DType::f32, .device = x.device()});
  if (out.numel() == 0) return out;
  if (k == 0) return bias.defined() ? bias.detach().expand(sizes).clone() : zeros(sizes, {.dtype = DType::f32});
  const Tensor dense = x.detach().contiguous(), matrix = weight.numbers.contiguous();
  const std::int64_t m = dense.numel() / k;
  const auto* values = dense.data<float>();
  const FloatRange range = float_range(values, dense.numel());
  const InputScale how = scale_for(range.low, range.high);
  const Tensor numbers = empty({m, k}, {.dtype = DType::u8}), sums = empty({m, n}, {.dtype = DType::i32});
  auto* small = static_cast<std::uint8_t*>(numbers.mutable_raw_data());
  auto* whole = static_cast<std::int32_t*>(sums.mutable_raw_data());
  int8_numbers(values, dense.numel(), 1.0F / how.scale, how.zero, small);
  int8_product({m, n, k}, small, static_cast<std::uint8_t>(how.zero), matrix.data<std::int8_t>(), whole);
  const Tensor added = bias.defined() ? bias.detach().contiguous() : Tensor();
  int8_values(whole, m, n, how.scale * weight.scale.item<float>(), added.defined() ? added.data<float>() : nullptr,
              static_cast<float*>(out.mutable_raw_data()));
  return out;
}

DynamicQuantizedLinear::DynamicQuantizedLinear(const Linear& linear)
    : in_features(linear.in_features),
      out_features(linear.out_features),
      weight(quantize_symmetric(linear.weight)),
      bias(linear.bias.defined() ? linear.bias.detach().clone() : Tensor()) {
  eval();
}

void DynamicQuantizedLinear::members(Members& m) {
  list_matrix(m, "weight", weight);
  m.buffer("bias", bias);
}

std::string DynamicQuantizedLinear::extra_repr() const {
  return "in_features=" + std::to_string(in_features) + ", out_features=" + std::to_string(out_features) +
         ", dtype=torch.qint8, qscheme=torch.per_tensor_affine";
}

DynamicQuantizedLSTM::DynamicQuantizedLSTM(const LSTM& lstm)
    : input_size(lstm.input_size), hidden_size(lstm.hidden_size), options(lstm.options) {
  if (options.proj_size > 0) {
    throw Error(ErrorCode::not_implemented,
                "an LSTM with projections (proj_size=" + std::to_string(options.proj_size) + ") has no quantized form");
  }
  LSTM source = lstm.clone();
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    for (int direction = 0; direction < (options.bidirectional ? 2 : 1); ++direction) {
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      const auto vector = [&](const char* name) {
        return options.bias ? source[name + suffix].detach().clone() : Tensor();
      };
      layers_.push_back({suffix, quantize_symmetric(source["weight_ih" + suffix]),
                         quantize_symmetric(source["weight_hh" + suffix]), vector("bias_ih"), vector("bias_hh")});
    }
  }
  eval();
}

void DynamicQuantizedLSTM::members(Members& m) {
  for (Layer& layer : layers_) {
    list_matrix(m, "weight_ih" + layer.suffix, layer.w_ih);
    list_matrix(m, "weight_hh" + layer.suffix, layer.w_hh);
    if (!options.bias) continue;
    m.buffer("bias_ih" + layer.suffix, layer.b_ih).buffer("bias_hh" + layer.suffix, layer.b_hh);
  }
}

std::string DynamicQuantizedLSTM::extra_repr() const {
  std::string text = std::to_string(input_size) + ", " + std::to_string(hidden_size);
  if (options.num_layers != 1) text += ", num_layers=" + std::to_string(options.num_layers);
  if (!options.bias) text += ", bias=False";
  if (options.batch_first) text += ", batch_first=True";
  if (options.bidirectional) text += ", bidirectional=True";
  return text;
}

Tensor DynamicQuantizedLSTM::run(const Layer& layer, const Tensor& x, State& state, bool reverse) {
  const Tensor from_input = linear_dynamic(x, layer.w_ih, layer.b_ih);  // of all steps, by one scale
  std::vector<Tensor> outputs(static_cast<std::size_t>(x.size(0)));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::size_t step = reverse ? outputs.size() - 1 - i : i;
    const Tensor gates = linear_dynamic(state.h, layer.w_hh, layer.b_hh) + from_input[static_cast<std::int64_t>(step)];
    const std::vector<Tensor> parts = gates.chunk(4, 1);
    state.c = sigmoid(parts[1]) * state.c + sigmoid(parts[0]) * tanh(parts[2]);
    state.h = sigmoid(parts[3]) * tanh(state.c);
    outputs[step] = state.h;
  }
  return stack(outputs);
}

std::tuple<Tensor, std::tuple<Tensor, Tensor>> DynamicQuantizedLSTM::forward(
    const Tensor& x, const std::tuple<Tensor, Tensor>& given) const {
  const NoGradGuard no_grad;
  if (x.dim() != 2 && x.dim() != 3) {
    throw Error(ErrorCode::value, "LSTM: Expected input to be 2D or 3D, got " + std::to_string(x.dim()) + "D instead");
  }
  check_input(x, input_size);
  const bool single = x.dim() == 2;
  Tensor input = single ? x.unsqueeze(1) : options.batch_first ? x.transpose(0, 1) : x;
  const auto count = static_cast<std::int64_t>(layers_.size());
  const Shape state_size = {count, input.size(1), hidden_size};
  const auto start = [&](const Tensor& state, const char* name) {
    if (!state.defined()) return zeros(state_size, {.dtype = DType::f32});
    const Tensor batched = single ? state.unsqueeze(1) : state;
    detail::check_state_size(batched, state_size, name);
    return batched;
  };
  if (std::get<0>(given).defined()) detail::check_lstm_ranks(x.dim(), std::get<0>(given), std::get<1>(given));
  const Tensor h0 = start(std::get<0>(given), "hidden[0]"), c0 = start(std::get<1>(given), "hidden[1]");
  const std::int64_t directions = options.bidirectional ? 2 : 1;
  std::vector<Tensor> last_h, last_c, outputs;
  for (std::int64_t i = 0; i < count; ++i) {
    State state{h0.select(0, i), c0.select(0, i)};
    outputs.push_back(run(layers_[static_cast<std::size_t>(i)], input, state, i % directions == 1));
    last_h.push_back(state.h);
    last_c.push_back(state.c);
    if (i % directions != directions - 1) continue;
    input = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
    outputs.clear();
    if (i + 1 < count) input = dropout(input, options.dropout, is_training());
  }
  const Tensor h = stack(last_h), c = stack(last_c);
  if (single) return {input.squeeze(1), {h.squeeze(1), c.squeeze(1)}};
  return {options.batch_first ? input.transpose(0, 1) : input, {h, c}};
}

namespace {

/// A child that is to be another, and how.
struct Replacement {
  std::function<void(const std::shared_ptr<Module>&)> put;
  std::shared_ptr<Module> module;
};

/// Of these classes alone: one that derives from them has a forward of its own.
std::shared_ptr<Module> quantized(const Module& module) {
  if (typeid(module) == typeid(Linear)) {
    return std::make_shared<DynamicQuantizedLinear>(static_cast<const Linear&>(module));
  }
  return typeid(module) == typeid(LSTM) ? std::make_shared<DynamicQuantizedLSTM>(dynamic_cast<const LSTM&>(module))
                                        : nullptr;
}

void collect(Module& module, const std::string& path, std::vector<Replacement>& found) {
  const Members own(module);
  for (const ChildMember& child : own.children()) {
    if (child.module == nullptr) continue;
    const std::string name = path.empty() ? child.name : path + "." + child.name;
    std::shared_ptr<Module> other = with_context("module '" + name + "'", [&] { return quantized(*child.module); });
    if (!other) {
      collect(*child.module, name, found);
      continue;
    }
    if (!child.rebind) {
      throw Error(ErrorCode::type, "module " + module.class_name() + ": its member '" + name +
                                       "' is part of the struct and stays what it is; hold it as "
                                       "std::shared_ptr<core::Module> to quantize the model, or make a "
                                       "core::DynamicQuantizedLinear of it");
    }
    found.push_back({child.rebind, std::move(other)});
  }
}

}  // namespace

std::int64_t quantize_dynamic(Module& model) {
  std::vector<Replacement> found;
  collect(model, "", found);
  for (const Replacement& one : found) one.put(one.module);
  return static_cast<std::int64_t>(found.size());
}

}  // namespace core
