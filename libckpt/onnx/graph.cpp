#include "libckpt/onnx/graph.h"

#include <algorithm>
#include <cstdio>

#include "libcore/base/dtype.h"
#include "libcore/tensor/factory.h"

namespace ckpt::onnx {

void Graph::begin(const std::string& module, const std::string& op) {
  prefix_.clear();
  if (!module.empty()) prefix_ = module + "/";
  std::replace(prefix_.begin(), prefix_.end(), '.', '/');
  label_ = op;
}

std::string Graph::unique(const std::string& wanted) {
  if (taken_.insert(wanted).second) return wanted;
  for (std::int64_t& count = counts_[wanted];;) {
    std::string name = wanted + "_" + std::to_string(++count);
    if (taken_.insert(name).second) return name;
  }
}

void Graph::node(std::string_view op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                 std::vector<Attribute> attributes) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  nodes_.push_back({std::string(op), unique("/" + prefix_ + std::string(op)), std::move(inputs), std::move(outputs),
                    std::move(attributes)});
}

std::string Graph::value(std::string_view op, std::vector<std::string> inputs, std::vector<Attribute> attributes) {
  const std::string name = unique(prefix_ + label_ + "/" + std::string(op));
  node(op, std::move(inputs), {name}, std::move(attributes));
  return name;
}

std::string Graph::constant(const core::Tensor& tensor) {
  const std::string name = unique(prefix_ + label_ + "/constant");
  initializer(name, tensor);
  return name;
}

std::string Graph::scalar(core::Scalar number, core::DType dtype) {
  const core::Scalar value =
      core::is_floating(dtype) ? core::Scalar(number.to_double()) : core::Scalar(number.to_int());
  char text[64];
  std::snprintf(text, sizeof text, "%.17g", value.to_double());
  const std::string digits = value.is_float() ? std::string(text) : std::to_string(value.to_int());
  std::string& known = constants_[digits + ":" + std::string(core::name(dtype))];
  if (!known.empty()) return known;
  known = unique("constant");
  initializer(known, core::full({}, value, {.dtype = dtype}));
  return known;
}

std::string Graph::list(const Integers& numbers) {
  std::string text = "list";
  for (const std::int64_t number : numbers) text += ":" + std::to_string(number);
  std::string& known = constants_[text];
  if (!known.empty()) return known;
  known = unique("constant");
  initializer(known, core::from_values(numbers, {.dtype = core::DType::i64}));
  return known;
}

std::string Graph::one(const SizeTerm& term) {
  if (term.is_constant()) return list(Integers{term.offset});
  std::string& known = constants_["size:" + text_of(term, sizes_)];
  if (!known.empty()) return known;
  std::string result;
  for (const std::size_t i : term.sizes) {
    std::string& size = constants_["size:" + sizes_[i].name];
    if (size.empty()) {
      size = value("Shape", {sizes_[i].input}, {{"start", sizes_[i].axis}, {"end", sizes_[i].axis + 1}});
    }
    result = result.empty() ? size : value("Mul", {result, size});
  }
  if (term.factor != 1) result = value("Mul", {result, list(Integers{term.factor})});
  if (term.offset != 0) result = value("Add", {result, list(Integers{term.offset})});
  return constants_["size:" + text_of(term, sizes_)] = result;
}

std::string Graph::list(const std::vector<SizeTerm>& terms) {
  Integers numbers;
  for (const SizeTerm& term : terms) numbers.push_back(term.offset);
  if (std::all_of(terms.begin(), terms.end(), [](const SizeTerm& term) { return term.is_constant(); })) {
    return list(numbers);
  }
  std::vector<std::string> parts;
  for (const SizeTerm& term : terms) parts.push_back(one(term));
  return parts.size() == 1 ? parts[0] : value("Concat", parts, {{"axis", std::int64_t{0}}});
}

}  // namespace ckpt::onnx
