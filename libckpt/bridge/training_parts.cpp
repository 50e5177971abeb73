#include "libckpt/bridge/training_parts.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "libckpt/bridge/training_state.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

constexpr std::array<std::string_view, 5> kNamesOfTheRun = {"epoch", "step", "rng_state", "cuda_rng_state", "extra"};

}  // namespace

TrainingParts& TrainingParts::add_part(const std::string& name,
                                       std::variant<core::Module*, core::Optimizer*, Plain> what) {
  const auto refuse = [&](const char* why) {
    throw core::Error(core::ErrorCode::usage, "a part of the run cannot be called " + core::quote(name) + ", " + why);
  };
  if (std::ranges::count(kNamesOfTheRun, name) != 0) refuse("which is a name of the run itself");
  if (std::ranges::count(parts_, name, &Part::name) != 0) refuse("as another part is");
  parts_.push_back({name, std::move(what)});
  return *this;
}

TrainingParts& TrainingParts::add(const std::string& name, core::Module& module) {
  return add_part(name, &module);
}
TrainingParts& TrainingParts::add(const std::string& name, core::Optimizer& optimizer) {
  return add_part(name, &optimizer);
}
TrainingParts& TrainingParts::add(const std::string& name, std::function<Value()> save,
                                  std::function<void(const Value&)> load) {
  return add_part(name, Plain{std::move(save), std::move(load)});
}
TrainingParts& TrainingParts::add_options(const std::string& name, std::function<core::OptionMap()> save,
                                          std::function<void(const core::OptionMap&)> load) {
  return add(
      name, [save = std::move(save)] { return to_value(save()); },
      [load = std::move(load)](const Value& value) { load(to_option_map(value)); });
}

TrainingParts& TrainingParts::add(const std::string& name, bool& variable) {
  return add(
      name, [&variable] { return Value(variable); },
      [&variable](const Value& value) { variable = value.as_boolean(); });
}
TrainingParts& TrainingParts::add(const std::string& name, std::int64_t& variable) {
  return add(
      name, [&variable] { return Value(variable); },
      [&variable](const Value& value) { variable = value.as_integer(); });
}
TrainingParts& TrainingParts::add(const std::string& name, double& variable) {
  return add(
      name, [&variable] { return Value(variable); },
      [&variable](const Value& value) {
        const bool whole = value.is(Value::Kind::integer);
        variable = whole ? static_cast<double>(value.as_integer()) : value.as_real();
      });
}
TrainingParts& TrainingParts::add(const std::string& name, std::string& variable) {
  return add(
      name, [&variable] { return Value(variable); }, [&variable](const Value& value) { variable = value.as_text(); });
}
TrainingParts& TrainingParts::add(const std::string& name, Value& variable) {
  return add(
      name, [&variable] { return variable; }, [&variable](const Value& value) { variable = value; });
}

std::vector<const core::Module*> TrainingParts::modules() const {
  std::vector<const core::Module*> modules;
  for (const Part& part : parts_) {
    if (const auto* module = std::get_if<core::Module*>(&part.what)) modules.push_back(*module);
  }
  return modules;
}

}  // namespace ckpt
