#pragma once
// The options of a parameter group and the state of an optimizer as plain values: what state_dict() gives, what a
// checkpoint stores as {'state': {0: {...}}, 'param_groups': [{..., 'params': [0]}]}.
// Thread safety: plain values. Use: group.options.set("lr", 0.01); group.options.number("lr");

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

class OptionMap;

/// None, a bool/int/float (Scalar remembers which), text, a tuple of numbers such as betas, (in the state of a
/// schedule) a list of maps, or a tuple some of whose items are None.
using OptionValue = std::variant<std::monostate, Scalar, std::string, std::vector<Scalar>, std::vector<OptionMap>,
                                 std::vector<std::optional<Scalar>>>;

/// "0.1", "None", "True", "(0.9, 0.999)": as Python prints it.
std::string to_string(const OptionValue& value);

/// Named values in the order in which they were set first.
class OptionMap {
 public:
  using Item = std::pair<std::string, OptionValue>;
  OptionMap() = default;
  OptionMap(std::initializer_list<Item> items) : items_(items) {}

  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Null when there is none.
  const OptionValue* find(std::string_view name) const;
  /// Error(key) with the name.
  const OptionValue& at(std::string_view name) const;
  /// Keeps its place when it is there already.
  void set(std::string_view name, OptionValue value);
  /// Numbers and flags; Error(type) when the value is something else.
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::vector<double> numbers(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<Item>& items() const { return items_; }

 private:
  std::vector<Item> items_;
};

/// Parameters that are updated with the same options.
struct ParamGroup {
  std::vector<Tensor> params;
  OptionMap options = {};  ///< what is not given is the optimizer's default

  double lr() const { return options.number("lr"); }
  void set_lr(double lr) { options.set("lr", Scalar(lr)); }
};

/// State of one parameter, for example {"step", ...}, {"exp_avg", ...}.
using ParamState = std::vector<std::pair<std::string, Tensor>>;

/// What an optimizer keeps besides tensors, such as LBFGS's counters and its lists: a number, or a list of tensors.
using StateValue = std::variant<Scalar, std::vector<Tensor>>;

/// Everything an optimizer needs to go on. Parameters are numbered from 0 through the groups.
struct OptimizerState {
  struct Group {
    OptionMap options;
    std::vector<std::int64_t> params;  ///< stands behind all options
  };
  std::vector<std::pair<std::int64_t, ParamState>> state;  ///< parameters that were updated at least once
  std::vector<Group> param_groups;
  /// Stands in 'state' beside the tensors of the same parameter.
  std::vector<std::pair<std::int64_t, std::vector<std::pair<std::string, StateValue>>>> values = {};
};

}  // namespace core
