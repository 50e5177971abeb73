#include "libckpt/hub/module_names.h"

#include <algorithm>

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

bool is_number(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// For Python's re.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (std::string_view(".^$*+?{}[]\\|()").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string module_of(std::string_view tensor) {
  const std::size_t dot = tensor.rfind('.');
  return std::string(tensor.substr(0, dot == std::string_view::npos ? 0 : dot));
}

std::string last_part(std::string_view name) {
  return std::string(name.substr(name.rfind('.') + 1));
}

void ModuleNames::add(const std::string& tensor) {
  std::string module = module_of(tensor);
  tensors_[module].push_back(tensor);
  for (; !module.empty(); module = module_of(module)) modules_.insert(module);
}

bool ModuleNames::can_be_saved(const std::string& module) const {
  if (module.empty()) return false;
  return std::ranges::none_of(modules_, [&](const std::string& other) {
    return other != module && (other.ends_with(module) || other.starts_with(module + "."));
  });
}

const std::vector<std::string>& ModuleNames::tensors_of(const std::string& module) const {
  return tensors_.at(module);
}

bool ModuleNames::means_only(const std::string& target, const std::set<std::string>& modules) const {
  return std::ranges::all_of(modules_, [&](const std::string& module) {
    return modules.contains(module) || (module != target && !module.ends_with("." + target));
  });
}

void ModuleNames::write_targets(JsonWriter& json, const std::set<std::string>& modules) const {
  std::set<std::string> targets;
  std::map<std::string, bool> is_enough;  // by last part: asked once each
  for (const std::string& module : modules) {
    const std::string last = last_part(module);
    // Layers without tensors have numbers too, of which the file says nothing.
    if (!is_enough.contains(last)) is_enough[last] = !is_number(last) && means_only(last, modules);
    targets.insert(is_enough[last] ? last : module);
  }
  const bool exact = std::ranges::all_of(targets, [&](const auto& target) { return means_only(target, modules); });
  if (!exact) {
    std::vector<std::string> names;
    for (const std::string& module : modules) names.push_back(escaped(module));
    json.value(core::join(names, "|"));
    return;
  }
  json.begin_array();
  for (const std::string& target : targets) json.value(target);
  json.end_array();
}

}  // namespace ckpt::detail
