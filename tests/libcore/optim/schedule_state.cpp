// The state of a schedule against the golden data.
#include <map>

#include "libcore/base/text.h"
#include "tests/libcore/optim/optim_spec.h"

namespace test {
namespace {

bool is_number(const core::Scalar& ours, Json wanted) {
  if (ours.is_bool() || wanted.is_bool())
    return ours.is_bool() && wanted.is_bool() && ours.to_bool() == boolean(wanted);
  return ours.to_double() == number(wanted);
}

bool is_list(const std::vector<core::Scalar>& ours, Json wanted) {
  const std::vector<Json> theirs = items(wanted);
  if (ours.size() != theirs.size()) return false;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!is_number(ours[i], theirs[i])) return false;
  }
  return true;
}

/// {"3": 2} for [3, 3].
bool is_counter(const std::vector<core::Scalar>& ours, Json wanted) {
  std::map<std::string, std::int64_t> counts, theirs;
  for (const core::Scalar& epoch : ours) ++counts[std::to_string(epoch.to_int())];
  for (auto [epoch, count] : simdjson::dom::object(wanted)) theirs[std::string(epoch)] = integer(count);
  return counts == theirs;
}

bool is_maps(const std::vector<core::OptionMap>& ours, Json wanted) {
  const std::vector<Json> theirs = items(wanted);
  if (ours.size() != theirs.size()) return false;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const bool none = is_null(theirs[i]) && ours[i].items().empty();
    if (!none && !state_difference(ours[i], theirs[i]).empty()) return false;
  }
  return true;
}

bool is_value(const core::OptionValue& ours, Json wanted) {
  if (const auto* scalar = std::get_if<core::Scalar>(&ours)) return !is_null(wanted) && is_number(*scalar, wanted);
  if (const auto* words = std::get_if<std::string>(&ours)) return wanted.is_string() && *words == text(wanted);
  if (const auto* maps = std::get_if<std::vector<core::OptionMap>>(&ours)) return is_maps(*maps, wanted);
  if (const auto* list = std::get_if<std::vector<core::Scalar>>(&ours)) {
    return wanted.is_object() ? is_counter(*list, wanted) : is_list(*list, wanted);
  }
  return is_null(wanted);
}

}  // namespace

std::string state_difference(const core::OptionMap& ours, Json wanted) {
  std::vector<std::string> names, their_names;
  for (const auto& [name, value] : ours.items()) {
    if (name == "_schedulers" && !has(wanted, name)) continue;  // the golden data leaves them out
    names.push_back(name);
    if (!has(wanted, name) || !is_value(value, member(wanted, name))) return name + " is " + core::to_string(value);
  }
  for (auto [name, value] : simdjson::dom::object(wanted)) their_names.emplace_back(name);
  return names == their_names ? "" : "keys are " + core::join(names, " ");
}

}  // namespace test
