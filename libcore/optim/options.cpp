#include "libcore/optim/options.h"

#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core {
namespace {

std::string scalar_text(const Scalar& value) {
  if (value.is_bool()) return value.to_bool() ? "True" : "False";
  return value.is_float() ? python_float(value.to_double()) : std::to_string(value.to_int());
}

std::string scalar_text(const std::optional<Scalar>& value) {
  return value ? scalar_text(*value) : "None";
}

template <class Item>
std::string tuple_text(const std::vector<Item>& values) {
  std::vector<std::string> parts;
  for (const Item& value : values) parts.push_back(scalar_text(value));
  return "(" + join(parts, ", ") + (values.size() == 1 ? ",)" : ")");
}

std::string maps_text(const std::vector<OptionMap>& maps) {
  std::vector<std::string> parts;
  for (const OptionMap& map : maps) {
    std::vector<std::string> items;
    for (const auto& [name, value] : map.items()) items.push_back("'" + name + "': " + to_string(value));
    parts.push_back("{" + join(items, ", ") + "}");
  }
  return "[" + join(parts, ", ") + "]";
}

const Scalar& scalar_of(const OptionMap& options, std::string_view name) {
  const auto* value = std::get_if<Scalar>(&options.at(name));
  if (value != nullptr) return *value;
  throw Error(ErrorCode::type, "optimizer option " + quote(name) + " is no number");
}

}  // namespace

std::string to_string(const OptionValue& value) {
  if (const auto* scalar = std::get_if<Scalar>(&value)) return scalar_text(*scalar);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* tuple = std::get_if<std::vector<Scalar>>(&value)) return tuple_text(*tuple);
  if (const auto* maps = std::get_if<std::vector<OptionMap>>(&value)) return maps_text(*maps);
  if (const auto* some = std::get_if<std::vector<std::optional<Scalar>>>(&value)) return tuple_text(*some);
  return "None";
}

const OptionValue* OptionMap::find(std::string_view name) const {
  auto found = std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.first == name; });
  return found == items_.end() ? nullptr : &found->second;
}

const OptionValue& OptionMap::at(std::string_view name) const {
  if (const OptionValue* value = find(name)) return *value;
  throw Error(ErrorCode::key, std::string(name));
}

void OptionMap::set(std::string_view name, OptionValue value) {
  auto found = std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.first == name; });
  if (found != items_.end()) {
    found->second = std::move(value);
  } else {
    items_.emplace_back(name, std::move(value));
  }
}

double OptionMap::number(std::string_view name) const {
  return scalar_of(*this, name).to_double();
}
bool OptionMap::flag(std::string_view name) const {
  return scalar_of(*this, name).to_bool();
}
std::int64_t OptionMap::integer(std::string_view name) const {
  return scalar_of(*this, name).to_int();
}
std::vector<double> OptionMap::numbers(std::string_view name) const {
  const auto* list = std::get_if<std::vector<Scalar>>(&at(name));
  if (list == nullptr) throw Error(ErrorCode::type, "optimizer option " + quote(name) + " is no list of numbers");
  std::vector<double> result;
  for (const Scalar& value : *list) result.push_back(value.to_double());
  return result;
}
const std::string& OptionMap::text(std::string_view name) const {
  const auto* value = std::get_if<std::string>(&at(name));
  if (value == nullptr) throw Error(ErrorCode::type, "optimizer option " + quote(name) + " is no text");
  return *value;
}

}  // namespace core
