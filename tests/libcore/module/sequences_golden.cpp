// Golden data set golden_sequences: sequences padded and packed, and recurrent layers over them, beside PyTorch's.
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <tuple>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/module/packed_sequence.h"
#include "libcore/module/recurrent.h"
#include "libcore/tensor/factory.h"
#include "tests/support/golden_device.h"
#include "tests/support/golden_json.h"

namespace {

using core::Tensor;
using test::Json;
using Tensors = std::map<std::string, Tensor>;

Tensor tensor_of(const test::GoldenArray& array) {
  return core::from_bytes(array.bytes, array.shape, array.dtype, {.device = core::Device()});
}

struct Case {
  Json json;
  const test::GoldenArrays& arrays;

  Json at(const char* name) const { return test::member(json, name); }
  bool flag(const char* name) const { return test::boolean(at(name)); }
  /// The arrays that a member names, on the device that computes.
  Tensors tensors(const char* name) const {
    Tensors result;
    if (!test::has(json, name)) return result;
    for (const auto field : at(name).get_object()) {
      const Json key = field.value;
      result[std::string(field.key)] =
          test::is_null(key) ? Tensor() : tensor_of(arrays.at(test::text(key))).to(test::golden_device());
    }
    return result;
  }
};

std::vector<Tensor> list(const Tensors& inputs) {
  std::vector<Tensor> result;
  for (std::size_t i = 0; inputs.contains("s" + std::to_string(i)); ++i) {
    result.push_back(inputs.at("s" + std::to_string(i)));
  }
  return result;
}
Tensors named(const std::vector<Tensor>& tensors) {
  Tensors result;
  for (std::size_t i = 0; i < tensors.size(); ++i) result["s" + std::to_string(i)] = tensors[i];
  return result;
}
Tensors named(const core::PackedSequence& packed) {
  return {{"data", packed.data},
          {"batch_sizes", packed.batch_sizes},
          {"sorted_indices", packed.sorted_indices},
          {"unsorted_indices", packed.unsorted_indices}};
}

core::PackedSequence packed_of(const Case& c, const Tensors& in) {
  const bool batch_first = test::has(c.json, "batch_first") && c.flag("batch_first");
  return core::pack_padded_sequence(
      in.at("x"), test::integers(c.at("lengths")),
      core::PackOptions{.batch_first = batch_first, .enforce_sorted = c.flag("enforce_sorted")});
}

Tensors pad_packed(const Case& c, const Tensors& in) {
  core::UnpackOptions how{.batch_first = c.flag("result_batch_first"),
                          .padding_value = test::number(c.at("padding_value"))};
  if (!test::is_null(c.at("total_length"))) how.total_length = test::integer(c.at("total_length"));
  const auto [padded, lengths] = core::pad_packed_sequence(packed_of(c, in), how);
  return {{"padded", padded}, {"lengths", lengths}};
}

Tensors pad(const Case& c, const Tensors& in) {
  return {{"padded", core::pad_sequence(list(in), {.batch_first = c.flag("batch_first"),
                                                   .padding_value = test::number(c.at("padding_value")),
                                                   .padding_side = test::text(c.at("padding_side"))})}};
}

core::RecurrentOptions options_of(Json kwargs) {
  core::RecurrentOptions o;
  if (test::has(kwargs, "num_layers")) o.num_layers = test::integer(test::member(kwargs, "num_layers"));
  if (test::has(kwargs, "bias")) o.bias = test::boolean(test::member(kwargs, "bias"));
  if (test::has(kwargs, "batch_first")) o.batch_first = test::boolean(test::member(kwargs, "batch_first"));
  if (test::has(kwargs, "bidirectional")) o.bidirectional = test::boolean(test::member(kwargs, "bidirectional"));
  if (test::has(kwargs, "proj_size")) o.proj_size = test::integer(test::member(kwargs, "proj_size"));
  if (test::has(kwargs, "nonlinearity")) o.nonlinearity = test::text(test::member(kwargs, "nonlinearity"));
  if (test::has(kwargs, "dtype")) o.dtype = test::dtype(test::member(kwargs, "dtype"));
  return o;
}

template <class Layer>
Tensors layer(const Case& c, const Tensors& in) {
  const Tensor& weight = in.at("param.weight_ih_l0");
  const Json kwargs = c.at("kwargs");
  Layer made(weight.size(1), in.contains("h0") && !test::has(kwargs, "proj_size") ? in.at("h0").size(2) : 4,
             options_of(kwargs));
  for (const auto& [name, tensor] : in) {
    if (name.starts_with("param.")) made[name.substr(6)].set_data(tensor);
  }
  const auto state = [&](const char* name) { return in.contains(name) ? in.at(name) : Tensor(); };
  Tensors out;
  const core::PackedSequence packed = packed_of(c, in);
  if constexpr (std::is_same_v<Layer, core::LSTM>) {
    const auto [y, last] = made(packed, std::tuple(state("h0"), state("c0")));
    out = named(y);
    std::tie(out["h"], out["c"]) = last;
  } else {
    const auto [y, h] = made(packed, state("h0"));
    out = named(y);
    out["h"] = h;
  }
  for (auto& [name, parameter] : made.named_parameters()) out["param." + name] = parameter;
  return out;
}

Tensors run(const Case& c, const Tensors& in) {
  const std::string op = test::text(c.at("op"));
  if (op == "pack_padded_sequence") return named(packed_of(c, in));
  if (op == "pad_packed_sequence") return pad_packed(c, in);
  if (op == "pad_sequence") return pad(c, in);
  if (op == "pack_sequence") return named(core::pack_sequence(list(in), c.flag("enforce_sorted")));
  if (op == "unpack_sequence") {
    return named(core::unpack_sequence(core::pack_sequence(list(in), c.flag("enforce_sorted"))));
  }
  if (op == "unpad_sequence") {
    return named(core::unpad_sequence(in.at("x"), core::from_values(test::integers(c.at("lengths"))), true));
  }
  if (op == "RNN") return layer<core::RNN>(c, in);
  if (op == "LSTM") return layer<core::LSTM>(c, in);
  if (op == "GRU") return layer<core::GRU>(c, in);
  throw std::out_of_range("no such operation: " + op);
}

std::string differs(const std::string& name, const Tensor& got, const Tensor& wanted) {
  if (got.defined() != wanted.defined()) return name + " is there or not";
  if (!wanted.defined()) return "";
  if (got.sizes() != wanted.sizes()) return name + " has sizes " + core::to_list(got.sizes());
  if (got.dtype() != wanted.dtype()) return name + " is " + std::string(core::name(got.dtype()));
  const std::vector<double> a = got.detach().to_vector<double>(), b = wanted.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 2e-5 * (1 + std::abs(b[i])))) {
      return name + "[" + std::to_string(i) + "] is " + std::to_string(a[i]) + ", not " + std::to_string(b[i]);
    }
  }
  return "";
}

/// sum(output * cos(0, 1, 2, ...)) over those of floats.
Tensor loss_of(const Tensors& outputs, const Tensors& wanted) {
  Tensor total;
  for (const auto& [name, unused] : wanted) {
    const Tensor& out = outputs.at(name);
    if (!out.defined() || !out.is_floating_point()) continue;
    const Tensor part =
        (out * core::arange(out.numel(), {.dtype = out.dtype(), .device = out.device()}).cos().reshape(out.sizes()))
            .sum();
    total = total.defined() ? total + part : part;
  }
  return total;
}

std::string check(const Case& c) {
  Tensors in = c.tensors("inputs");
  for (auto& [name, tensor] : in) {
    if (tensor.is_floating_point()) tensor.requires_grad_();
  }
  Tensors outputs = run(c, in);
  for (auto& [name, tensor] : in) {  // a layer's own parameters
    if (outputs.contains(name) && name.starts_with("param.")) tensor = outputs[name];
  }
  const Tensors wanted = c.tensors("outputs"), grads = c.tensors("grads");
  for (const auto& [name, tensor] : wanted) {
    if (!outputs.contains(name)) return "no output " + name;
    if (std::string why = differs(name, outputs[name], tensor); !why.empty()) return why;
  }
  if (!test::is_null(c.at("text")) && !test::on_golden_device()) {
    const core::NoGradGuard no_history;
    const std::string text = packed_of(c, c.tensors("inputs")).str();
    if (text != test::text(c.at("text"))) return "prints " + text;
  }
  if (grads.empty()) return "";
  std::vector<Tensor> leaves;
  for (const auto& [name, unused] : grads) leaves.push_back(in.at(name));
  const std::vector<Tensor> got = core::grad({loss_of(outputs, wanted)}, leaves, {.allow_unused = true});
  std::size_t at = 0;
  for (const auto& [name, tensor] : grads) {
    if (std::string why = differs("gradient of " + name, got[at++], tensor); !why.empty()) return why;
  }
  return "";
}

/// Empty when the call fails in PyTorch's words.
std::string check_error(const Case& c) {
  const std::string wanted = test::text(c.at("error"));
  try {
    run(c, c.tensors("inputs"));
  } catch (const core::Error& error) {
    return test::is_same_error(error.message(), wanted) ? ""
                                                        : "says \"" + error.message() + "\" where \"" + wanted + "\"";
  }
  return "does not fail: " + wanted;
}

}  // namespace

int main() {
  test::compute_on_golden_device();
  return test::golden_main("sequences", "sequences/cases.json", [](Json root, test::GoldenRun& run) {
    const test::GoldenArrays arrays(*test::golden_file("sequences/cases.safetensors"));
    for (Json json : test::items(test::member(root, "cases"))) {
      const Case c{json, arrays};
      const std::string id = test::text(c.at("id"));
      test::guarded(run, id, [&] {
        const std::string why = test::has(json, "error") ? check_error(c) : check(c);
        run.check(id, why.empty(), why);
      });
    }
  });
}
