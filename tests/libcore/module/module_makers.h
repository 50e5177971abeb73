#pragma once
// What the makers of golden modules share: the arguments of a constructor as modules.json has them, and the table.
// Use: void add_conv_makers(Makers& makers) { makers["Conv1d"] = [](Arguments& a) -> core::AnyModule { ... }; }

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libcore/data/dataset.h"
#include "libcore/module/activation.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/size2.h"
#include "tests/libcore/module/module_spec.h"

namespace test {

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
  core::Size2 size2(std::size_t position, const std::string& name, core::Size2 otherwise = {}) {
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
  /// A number that keeps whether it was written as an integer.
  core::Scalar scalar(std::size_t position, const std::string& name, core::Scalar otherwise) {
    const auto value = get(position, name);
    if (!value) return otherwise;
    if (value->is_int64()) return test::integer(*value);
    return test::number(*value);
  }
  /// A number or a list of numbers; empty when absent or null.
  core::Shape sizes(std::size_t position, const std::string& name) {
    const auto value = get(position, name);
    if (!value || is_null(*value)) return {};
    return value->is_array() ? core::Shape(integers(*value)) : core::Shape{test::integer(*value)};
  }
  core::InplaceOptions inplace(std::size_t position) { return {.inplace = flag(position, "inplace", false)}; }
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

using Makers = std::map<std::string, core::AnyModule (*)(Arguments&)>;

void add_activation_makers(Makers& makers);
void add_attention_makers(Makers& makers);
void add_conv_makers(Makers& makers);
void add_layer_makers(Makers& makers);
void add_loss_makers(Makers& makers);
void add_pool_makers(Makers& makers);
void add_recurrent_makers(Makers& makers);

}  // namespace test
