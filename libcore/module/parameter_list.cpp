// ParameterList and ParameterDict of module/sequential.h.
#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/sequential.h"

namespace core {
namespace {

std::string line_of(const std::string& name, const Parameter& parameter) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : parameter.sizes()) sizes.push_back(std::to_string(size));
  const bool on_gpu = parameter.device().type() == DeviceType::cuda;
  const std::string device = on_gpu ? " (GPU " + std::to_string(parameter.device().index()) + ")" : "";
  return "  (" + name + "): Parameter containing: [torch." + std::string(core::name(parameter.dtype())) + " of size " +
         join(sizes, "x") + device + "]";
}

}  // namespace

Parameter& ParameterList::operator[](std::int64_t index) {
  if (index < -size() || index >= size()) {
    throw Error(ErrorCode::index, "index " + std::to_string(index) + " is out of range");
  }
  return parameters_[static_cast<std::size_t>(index < 0 ? index + size() : index)];
}

void ParameterList::members(Members& m) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) m.parameter(std::to_string(i), parameters_[i]);
}

std::string ParameterList::extra_repr() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < parameters_.size(); ++i) lines.push_back(line_of(std::to_string(i), parameters_[i]));
  return join(lines, "\n");
}

void ParameterDict::insert(std::string name, Parameter parameter) {
  for (auto& [key, value] : parameters_) {
    if (key != name) continue;
    value = std::move(parameter);
    return;
  }
  parameters_.emplace_back(std::move(name), std::move(parameter));
}

bool ParameterDict::contains(std::string_view name) const {
  return std::any_of(parameters_.begin(), parameters_.end(), [&](const auto& entry) { return entry.first == name; });
}

Parameter& ParameterDict::operator[](std::string_view name) {
  for (auto& [key, value] : parameters_) {
    if (key == name) return value;
  }
  throw Error(ErrorCode::key, std::string(name));
}

void ParameterDict::members(Members& m) {
  for (auto& [name, parameter] : parameters_) m.parameter(name, parameter);
}

std::string ParameterDict::extra_repr() const {
  std::vector<std::string> lines;
  for (const auto& [name, parameter] : parameters_) lines.push_back(line_of(name, parameter));
  return join(lines, "\n");
}

}  // namespace core
