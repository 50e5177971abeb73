#pragma once
// The operations that golden_runtime_ops knows by name. One function per family adds its own to the table.
// Use: OpCalls calls; add_elementwise_calls(calls); calls.at("torch.add")(op_case);

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libcore/ops/reduce.h"
#include "tests/support/golden_json.h"

namespace test {

struct OpCase {
  std::vector<core::Tensor> leaves;  // undefined for null
  std::vector<core::Tensor> in;      // the leaves, some with their last two dimensions swapped
  std::vector<Json> args;
  Json kwargs;
  mutable std::map<std::string, core::Tensor> params;  // of a module; the call puts the module's own handles here

  bool has(const char* key) const { return test::has(kwargs, key) && !is_null(member(kwargs, key)); }
  double number(const char* key, double otherwise) const {
    return has(key) ? test::number(member(kwargs, key)) : otherwise;
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) const {
    return has(key) ? test::integer(member(kwargs, key)) : otherwise;
  }
  bool flag(const char* key, bool otherwise = false) const {
    return has(key) ? boolean(member(kwargs, key)) : otherwise;
  }
  std::string text(const char* key, const std::string& otherwise) const {
    return has(key) ? test::text(member(kwargs, key)) : otherwise;
  }
  /// A number or a list of numbers.
  core::Shape shape(const char* key) const { return has(key) ? shape_of(member(kwargs, key)) : core::Shape(); }
  static core::Shape shape_of(Json value) {
    return value.is_array() ? test::shape(value) : core::Shape{test::integer(value)};
  }
  /// Keeps whether the number was written as an integer.
  static core::Scalar scalar_of(Json value) {
    if (value.is_bool()) return boolean(value);
    if (value.is_int64()) return test::integer(value);
    return test::number(value);
  }
  core::Scalar scalar(const char* key, core::Scalar otherwise) const {
    return has(key) ? scalar_of(member(kwargs, key)) : otherwise;
  }
};

struct OpCall {
  std::function<std::vector<core::Tensor>(const OpCase&)> run;
  bool exact = false;  // bit for bit
};
using OpCalls = std::map<std::string, OpCall>;

void add_elementwise_calls(OpCalls& calls);
void add_reduction_calls(OpCalls& calls);
void add_matmul_calls(OpCalls& calls);
void add_shape_calls(OpCalls& calls);
void add_in_place_calls(OpCalls& calls);
void add_nn_calls(OpCalls& calls);
/// These two take operations of the others over, so they come last.
void add_nn_more_calls(OpCalls& calls);
void add_more_calls(OpCalls& calls);
/// What only half/ops.json has.
void add_half_calls(OpCalls& calls);
/// What only complex/ops.json has.
void add_complex_calls(OpCalls& calls);
/// What only inventory/ops.json has.
void add_inventory_calls(OpCalls& calls);

}  // namespace test
