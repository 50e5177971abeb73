#include "libcore/tensorboard/summaries.h"

#include <string_view>

#include "libcore/base/error.h"
#include "libcore/tensorboard/wire.h"

namespace core::tensorboard {
namespace {

// Numbers of TensorBoard's protocol buffers.
constexpr std::int64_t kString = 7;           // DataType of a tensor
constexpr std::int64_t kStringParameter = 1;  // DataType of a hyperparameter
constexpr std::int64_t kFloatParameter = 3;
constexpr std::int64_t kSuccess = 1;

std::string metadata(std::string_view plugin, std::string_view content) {
  std::string data, out;
  wire::bytes(data, 1, plugin);
  wire::bytes(data, 2, content);
  wire::bytes(out, 1, data);
  return out;
}

/// A Summary of one Value.
std::string summary_of(const std::string& value) {
  std::string out;
  wire::bytes(out, 1, value);
  return out;
}

std::string hparams_summary(std::string_view tag, unsigned field, const std::string& content) {
  std::string data, value;
  wire::bytes(data, field, content);
  wire::bytes(value, 1, tag);
  wire::bytes(value, 9, metadata("hparams", data));
  return summary_of(value);
}

/// A number for everything but text, a bool among them, as PyTorch's.
double number_of(const HparamValue& value) {
  if (const bool* as_bool = std::get_if<bool>(&value)) return *as_bool ? 1 : 0;
  if (const auto* as_integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*as_integer);
  return std::get<double>(value);
}

/// google.protobuf.Value
std::string value_message(const HparamValue& value) {
  std::string out;
  if (const auto* as_text = std::get_if<std::string>(&value)) {
    wire::bytes(out, 3, *as_text);
  } else {
    wire::real(out, 2, number_of(value));
  }
  return out;
}

const HparamValue* find(const Hparams& hparams, const std::string& name) {
  for (const auto& [key, value] : hparams) {
    if (key == name) return &value;
  }
  return nullptr;
}

void check_domains(const Hparams& hparams, const HparamsOptions& options) {
  for (const auto& [name, values] : options.domain_discrete) {
    const HparamValue* own = find(hparams, name);
    bool fits = own != nullptr;
    for (const HparamValue& value : values) fits = fits && value.index() == own->index();
    if (fits) continue;
    throw Error(ErrorCode::type, "parameter: hparam_domain_discrete[" + name +
                                     "] should be a list of same type as hparam_dict[" + name + "].");
  }
}

std::string parameter_info(const std::string& name, const HparamValue& value, const HparamsOptions& options) {
  std::string info;
  wire::bytes(info, 1, name);
  wire::integer(info, 4, std::holds_alternative<std::string>(value) ? kStringParameter : kFloatParameter);
  if (const auto domain = options.domain_discrete.find(name); domain != options.domain_discrete.end()) {
    std::string list;
    for (const HparamValue& one : domain->second) wire::bytes(list, 1, value_message(one));
    wire::bytes(info, 5, list);
  }
  return info;
}

}  // namespace

std::string scalar_summary(const std::string& tag, double value) {
  std::string out;
  wire::bytes(out, 1, tag);
  wire::real32(out, 2, static_cast<float>(value));
  return summary_of(out);
}

std::string text_summary(const std::string& tag, const std::string& text) {
  std::string size, shape, tensor, value;
  wire::integer(size, 1, 1);
  wire::bytes(shape, 2, size);
  wire::integer(tensor, 1, kString);
  wire::bytes(tensor, 2, shape);
  wire::bytes(tensor, 8, text);
  wire::bytes(value, 1, tag + "/text_summary");
  wire::bytes(value, 8, tensor);
  wire::bytes(value, 9, metadata("text", ""));
  return summary_of(value);
}

std::string experiment_summary(const Hparams& hparams, const Metrics& metrics, const HparamsOptions& options) {
  check_domains(hparams, options);
  std::string experiment;
  for (const auto& [name, value] : hparams) wire::bytes(experiment, 4, parameter_info(name, value, options));
  for (const auto& [tag, value] : metrics) {
    std::string name, info;
    wire::bytes(name, 2, tag);
    wire::bytes(info, 1, name);
    wire::bytes(experiment, 5, info);
  }
  return hparams_summary("_hparams_/experiment", 2, experiment);
}

std::string session_start_summary(const Hparams& hparams) {
  std::string start;
  for (const auto& [name, value] : hparams) {
    std::string entry;
    wire::bytes(entry, 1, name);
    wire::bytes(entry, 2, value_message(value));
    wire::bytes(start, 1, entry);
  }
  return hparams_summary("_hparams_/session_start_info", 3, start);
}

std::string session_end_summary() {
  std::string end;
  wire::integer(end, 1, kSuccess);
  return hparams_summary("_hparams_/session_end_info", 4, end);
}

}  // namespace core::tensorboard
