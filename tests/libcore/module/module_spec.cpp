#include "tests/libcore/module/module_spec.h"

#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>

#include "libcore/autograd/grad_mode.h"
#include "libcore/core.h"
#include "libcore/module/activation.h"
#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/loss.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"

namespace test {
namespace {

using core::AnyModule;
using core::Size2;

/// Thrown for a class or an option that libcore does not have.
struct Missing {
  std::string what;
};

/// Positional and named arguments of a constructor; remembers what was read, so that nothing is ignored.
class Arguments {
 public:
  explicit Arguments(Json spec) {
    const Json args = member(spec, "args"), kwargs = member(spec, "kwargs");
    if (args.is_array()) {
      for (const Json value : args.get_array()) positional_.push_back(value);
    }
    if (kwargs.is_object()) {
      for (const auto field : kwargs.get_object()) named_.emplace(std::string(field.key), field.value);
    }
  }

  std::optional<Json> get(std::size_t position, const std::string& name) {
    read_ = std::max(read_, position + 1);
    const auto found = named_.find(name);
    if (found != named_.end()) {
      const Json value = found->second;
      named_.erase(found);
      return value;
    }
    return position < positional_.size() ? std::optional<Json>(positional_[position]) : std::nullopt;
  }
  std::int64_t integer(std::size_t position, const std::string& name, std::int64_t otherwise = 0) {
    const auto value = get(position, name);
    return value ? test::integer(*value) : otherwise;
  }
  double number(std::size_t position, const std::string& name, double otherwise) {
    const auto value = get(position, name);
    return value ? test::number(*value) : otherwise;
  }
  bool flag(std::size_t position, const std::string& name, bool otherwise) {
    const auto value = get(position, name);
    return value ? boolean(*value) : otherwise;
  }
  std::string word(std::size_t position, const std::string& name, const std::string& otherwise) {
    const auto value = get(position, name);
    return value ? text(*value) : otherwise;
  }
  Size2 size2(std::size_t position, const std::string& name, Size2 otherwise = {}) {
    const auto value = get(position, name);
    if (!value) return otherwise;
    if (!value->is_array()) return test::integer(*value);
    const auto pair = integers(*value);
    return {pair.at(0), pair.at(1)};
  }
  std::optional<core::DType> dtype() {
    const auto value = get(99, "dtype");
    return value ? core::try_parse_dtype(text(*value)) : std::nullopt;
  }
  /// Throws when the spec has an argument that was not asked for.
  void finish() const {
    if (!named_.empty()) throw Missing{"option " + named_.begin()->first};
    if (positional_.size() > read_) throw Missing{"a positional argument"};
  }

 private:
  std::vector<Json> positional_;
  std::map<std::string, Json> named_;
  std::size_t read_ = 0;
};

core::AdaptiveSize adaptive_size(Json value) {
  if (!value.is_array()) return integer(value);
  std::vector<std::optional<std::int64_t>> sizes;
  for (const Json item : value.get_array()) {
    sizes.push_back(is_null(item) ? std::nullopt : std::optional<std::int64_t>(integer(item)));
  }
  return {sizes.at(0), sizes.at(1)};
}

core::BatchNormOptions batch_norm_options(Arguments& a) {
  core::BatchNormOptions o;
  o.eps = a.number(1, "eps", o.eps);
  const auto momentum = a.get(2, "momentum");
  if (momentum) o.momentum = is_null(*momentum) ? std::nullopt : std::optional<double>(number(*momentum));
  o.affine = a.flag(3, "affine", true);
  o.track_running_stats = a.flag(4, "track_running_stats", true);
  o.bias = a.flag(99, "bias", true);
  return o;
}

AnyModule make_conv2d(Arguments& a) {
  core::Conv2dLayerOptions o;
  const std::int64_t in = a.integer(0, "in_channels"), out = a.integer(1, "out_channels");
  const Size2 kernel = a.size2(2, "kernel_size");
  o.stride = a.size2(3, "stride", 1);
  const auto padding = a.get(4, "padding");
  if (padding && padding->is_string()) {
    o.padding = core::Padding(text(*padding));
  } else if (padding && padding->is_array()) {
    o.padding = core::Padding(integers(*padding).at(0), integers(*padding).at(1));
  } else if (padding) {
    o.padding = integer(*padding);
  }
  o.dilation = a.size2(5, "dilation", 1);
  o.groups = a.integer(6, "groups", 1);
  o.bias = a.flag(7, "bias", true);
  const std::string mode = a.word(8, "padding_mode", "zeros");
  o.padding_mode = mode;
  return core::Conv2d(in, out, kernel, o);
}

AnyModule make_layer_norm(Arguments& a) {
  const Json shape = *a.get(0, "normalized_shape");
  core::LayerNormOptions o;
  o.eps = a.number(1, "eps", o.eps);
  o.elementwise_affine = a.flag(2, "elementwise_affine", true);
  o.bias = a.flag(3, "bias", true);
  return core::LayerNorm(shape.is_array() ? core::Shape(integers(shape)) : core::Shape{integer(shape)}, o);
}

AnyModule make_embedding(Arguments& a) {
  const std::int64_t count = a.integer(0, "num_embeddings"), width = a.integer(1, "embedding_dim");
  core::EmbeddingOptions o;
  const auto padding = a.get(2, "padding_idx");
  if (padding) o.padding_idx = integer(*padding);
  return core::Embedding(count, width, o);
}

AnyModule make_cross_entropy(Arguments& a) {
  core::CrossEntropyOptions o;
  o.ignore_index = a.integer(2, "ignore_index", o.ignore_index);
  o.reduction = core::parse_reduction(a.word(4, "reduction", "mean"));
  o.label_smoothing = a.number(5, "label_smoothing", 0);
  return core::CrossEntropyLoss(o);
}

AnyModule make_linear(Arguments& a) {
  const std::int64_t in = a.integer(0, "in_features"), out = a.integer(1, "out_features");
  const bool bias = a.flag(2, "bias", true);
  return core::Linear(in, out, {.bias = bias, .dtype = a.dtype()});
}

AnyModule make_maxpool2d(Arguments& a) {
  const Size2 kernel = a.size2(0, "kernel_size"), stride = a.size2(1, "stride");
  const Size2 padding = a.size2(2, "padding", 0), dilation = a.size2(3, "dilation", 1);
  return core::MaxPool2d(kernel, {stride, padding, dilation, a.flag(5, "ceil_mode", false)});
}

AnyModule make_avgpool2d(Arguments& a) {
  const Size2 kernel = a.size2(0, "kernel_size"), stride = a.size2(1, "stride");
  const Size2 padding = a.size2(2, "padding", 0);
  const bool ceil_mode = a.flag(3, "ceil_mode", false);
  return core::AvgPool2d(kernel, {stride, padding, ceil_mode, a.flag(4, "count_include_pad", true), {}});
}

using Make = AnyModule (*)(Arguments&);

const std::map<std::string, Make>& makers() {
  static const std::map<std::string, Make> table = {
      {"Linear", make_linear},
      {"Conv2d", make_conv2d},
      {"BatchNorm1d",
       [](Arguments& a) -> AnyModule { return core::BatchNorm1d(a.integer(0, "n"), batch_norm_options(a)); }},
      {"BatchNorm2d",
       [](Arguments& a) -> AnyModule { return core::BatchNorm2d(a.integer(0, "n"), batch_norm_options(a)); }},
      {"LayerNorm", make_layer_norm},
      {"Embedding", make_embedding},
      {"MaxPool2d", make_maxpool2d},
      {"AvgPool2d", make_avgpool2d},
      {"AdaptiveAvgPool2d",
       [](Arguments& a) -> AnyModule { return core::AdaptiveAvgPool2d(adaptive_size(*a.get(0, "output_size"))); }},
      {"Flatten",
       [](Arguments& a) -> AnyModule {
         const std::int64_t start = a.integer(0, "start_dim", 1);
         return core::Flatten(start, a.integer(1, "end_dim", -1));
       }},
      {"Identity", [](Arguments&) -> AnyModule { return core::Identity(); }},
      {"Dropout",
       [](Arguments& a) -> AnyModule {
         const double p = a.number(0, "p", 0.5);
         return core::Dropout(p, {.inplace = a.flag(1, "inplace", false)});
       }},
      {"ReLU", [](Arguments& a) -> AnyModule { return core::ReLU({.inplace = a.flag(0, "inplace", false)}); }},
      {"LeakyReLU", [](Arguments& a) -> AnyModule { return core::LeakyReLU(a.number(0, "negative_slope", 0.01)); }},
      {"ELU", [](Arguments& a) -> AnyModule { return core::ELU(a.number(0, "alpha", 1)); }},
      {"Sigmoid", [](Arguments&) -> AnyModule { return core::Sigmoid(); }},
      {"LogSigmoid", [](Arguments&) -> AnyModule { return core::LogSigmoid(); }},
      {"Tanh", [](Arguments&) -> AnyModule { return core::Tanh(); }},
      {"SiLU", [](Arguments&) -> AnyModule { return core::SiLU(); }},
      {"GELU",
       [](Arguments& a) -> AnyModule {
         const bool tanh = a.word(0, "approximate", "none") == "tanh";
         return core::GELU(tanh ? core::GeluForm::tanh : core::GeluForm::exact);
       }},
      {"Softmax", [](Arguments& a) -> AnyModule { return core::Softmax(a.integer(0, "dim")); }},
      {"LogSoftmax", [](Arguments& a) -> AnyModule { return core::LogSoftmax(a.integer(0, "dim")); }},
      {"CrossEntropyLoss", make_cross_entropy},
      {"MSELoss",
       [](Arguments& a) -> AnyModule { return core::MSELoss(core::parse_reduction(a.word(2, "reduction", "mean"))); }},
      {"NLLLoss",
       [](Arguments& a) -> AnyModule {
         core::NllLossOptions o;
         o.reduction = core::parse_reduction(a.word(4, "reduction", "mean"));
         return core::NLLLoss(o);
       }},
  };
  return table;
}

class Builder {
 public:
  std::shared_ptr<core::Module> build(Json spec, const std::string& path);

 private:
  std::shared_ptr<core::Module> build_leaf(Json spec);
  std::shared_ptr<core::Module> build_container(Json spec, const std::string& path);
  std::vector<std::pair<std::string, std::shared_ptr<core::Module>>> children(Json spec, const std::string& path);

  std::map<std::string, std::shared_ptr<core::Module>> built_;
};

std::shared_ptr<core::Module> Builder::build_leaf(Json spec) {
  const std::string type = text(member(spec, "type"));
  const auto found = makers().find(type);
  if (found == makers().end()) throw Missing{type};
  Arguments arguments(spec);
  AnyModule made = found->second(arguments);
  arguments.finish();
  return made.get();
}

std::vector<std::pair<std::string, std::shared_ptr<core::Module>>> Builder::children(Json spec,
                                                                                     const std::string& path) {
  std::vector<std::pair<std::string, std::shared_ptr<core::Module>>> result;
  for (const Json child : member(spec, "children").get_array()) {
    const std::string name = text(child.at(0));
    result.emplace_back(name, build(child.at(1), path.empty() ? name : path + "." + name));
  }
  return result;
}

/// The items of a list that may be absent.
std::vector<Json> list_of(Json spec, std::string_view key) {
  std::vector<Json> items;
  if (!has(spec, key)) return items;
  for (const Json item : member(spec, key).get_array()) items.push_back(item);
  return items;
}

std::shared_ptr<core::Module> user_class(Json spec) {
  auto made = std::make_shared<SpecModule>();
  made->class_text = text(member(spec, has(spec, "class") ? "class" : "type"));
  made->chained = has(spec, "forward") || made->class_text == "DataParallel";
  if (has(spec, "extra_repr")) made->extra = text(member(spec, "extra_repr"));
  const auto zeros = [](Json sizes) { return is_null(sizes) ? core::Tensor() : core::zeros(shape(sizes)); };
  for (const Json item : list_of(spec, "parameters")) {
    const core::Tensor value = zeros(item.at(1));
    made->parameter_list.emplace_back(text(item.at(0)), value.defined() ? core::Parameter(value) : core::Parameter());
  }
  for (const Json item : list_of(spec, "buffers")) {
    made->buffer_list.push_back({text(item.at(0)), zeros(item.at(1)), boolean(item.at(2))});
  }
  return made;
}

std::shared_ptr<core::Module> Builder::build_container(Json spec, const std::string& path) {
  const std::string type = text(member(spec, "type"));
  if (type == "Module" || type == "DataParallel") {
    auto made = std::static_pointer_cast<SpecModule>(user_class(spec));
    made->child_list = children(spec, path);
    return made;
  }
  const auto entries = children(spec, path);
  if (type == "Sequential") {
    auto made = std::make_shared<core::Sequential>();
    for (const auto& [name, child] : entries) made->add_module(name, child);
    return made;
  }
  if (type == "ModuleList") {
    auto made = std::make_shared<core::ModuleList>();
    for (const auto& entry : entries) made->push_back(entry.second);
    return made;
  }
  if (type != "ModuleDict") throw Missing{type};
  auto made = std::make_shared<core::ModuleDict>();
  for (const auto& [name, child] : entries) made->insert(name, child);
  return made;
}

std::shared_ptr<core::Module> Builder::build(Json spec, const std::string& path) {
  if (is_null(spec)) return nullptr;
  if (has(spec, "share")) return built_.at(text(member(spec, "share")));
  const auto made = has(spec, "children") ? build_container(spec, path) : build_leaf(spec);
  built_[path] = made;
  return made;
}

}  // namespace

void SpecModule::members(core::Members& m) {
  for (auto& [name, tensor] : parameter_list) m.parameter(name, tensor);
  for (Buffer& buffer : buffer_list) m.buffer(buffer.name, buffer.tensor, buffer.persistent);
  for (auto& [name, child] : child_list) m.child(name, child);
}

core::Tensor SpecModule::forward(const core::Tensor& x) {
  if (!chained) return Module::call(x);
  core::Tensor value = x;
  for (const auto& [name, child] : named_children()) value = child->call(value);
  return value;
}

BuiltModule build_module(Json spec) {
  try {
    Builder builder;
    return {builder.build(spec, ""), ""};
  } catch (const Missing& missing) {
    return {nullptr, missing.what};
  }
}

core::Tensor to_tensor(const GoldenArray& array) {
  return core::from_bytes(core::Bytes(array.bytes), array.shape, array.dtype);
}

core::ByteVector bytes_of(const core::Tensor& tensor) {
  const core::Tensor dense = tensor.detach().cpu().contiguous();
  const auto size =
      static_cast<std::size_t>(*core::byte_size(dense.dtype(), static_cast<std::uint64_t>(dense.numel())));
  const auto* data = static_cast<const std::byte*>(dense.raw_data());
  return core::ByteVector(data, data + size);
}

std::string difference(const core::Tensor& tensor, const GoldenArray& expected) {
  if (!tensor.defined()) return "it is undefined";
  if (tensor.dtype() != expected.dtype) return "dtype is " + std::string(core::name(tensor.dtype()));
  if (!(tensor.sizes() == expected.shape)) return "shape is " + core::to_list(tensor.sizes());
  const std::vector<double> ours = tensor.detach().to_vector<double>();
  const std::vector<double> theirs = to_tensor(expected).to_vector<double>();
  const bool is_double = expected.dtype == core::DType::f64;
  const double rtol = is_double ? 1e-7 : 1.3e-6, atol = is_double ? 1e-7 : 1e-5;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (std::isnan(theirs[i]) ? std::isnan(ours[i])
                              : std::abs(ours[i] - theirs[i]) <= atol + rtol * std::abs(theirs[i]))
      continue;
    return "element " + std::to_string(i) + " is " + std::to_string(ours[i]) + " where " + std::to_string(theirs[i]);
  }
  return "";
}

}  // namespace test
