#pragma once
// Obstacle: something of a checkpoint that a format cannot hold, and why. The functions make those that several formats
// have. Thread safety: pure. Errors: none. Use:
// ckpt::Obstacle bad = ckpt::dtype_obstacle("fc.weight", core::DType::bf16);

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libckpt/value.h"
#include "libcore/base/dtype.h"

namespace ckpt {

struct Obstacle {
  enum class Kind : std::uint8_t {
    top,          ///< the top is not what the format begins with
    key,          ///< a key of a dict that is no text
    name,         ///< a name that the format does not have or would change
    nested_dict,  ///< a dict in a dict; its tensors would get names with dots
    value,        ///< a value that is no tensor
    object,       ///< an object of a Python class
    attribute,    ///< what Python keeps beside a dict or a tensor, or the class of a tensor; the values are kept
    metadata,     ///< of the file
    dtype,        ///< an element type; written as another it could be held
    scale,        ///< a quantised tensor without its scale
    blocks,       ///< quantised blocks
    shape,        ///< dimensions, or blocks that do not fit them
    no_data,      ///< a tensor of the meta device
    pending,      ///< a tensor whose conjugation or negation is not carried out
    shared,       ///< memory that tensors on two devices share
  };
  std::string subject;  ///< dotted name
  Kind kind = Kind::value;
  std::string reason;                     ///< "dtype float8_e4m3fn", "a value of type int", ...
  std::optional<core::DType> dtype = {};  ///< of Kind::dtype
};

/// "'fc.weight' (dtype bfloat16)".
std::string describe(const Obstacle& obstacle);

Obstacle top_obstacle(const Value& root, std::string_view wanted);  ///< `wanted`: "a dict of tensors"
Obstacle key_obstacle(std::string subject, const Value& key);
Obstacle name_obstacle(std::string subject, std::string_view what);  ///< `what`: "that is not valid UTF-8"
Obstacle nested_dict_obstacle(std::string subject);
Obstacle value_obstacle(std::string subject, const Value& value);
Obstacle python_class_obstacle(std::string subject, const Entry& entry);
Obstacle dtype_obstacle(std::string subject, core::DType dtype);
Obstacle no_data_obstacle(std::string subject);
Obstacle pending_obstacle(std::string subject);

}  // namespace ckpt
