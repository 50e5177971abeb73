#pragma once
// Pieces of a module's printed form.
// Thread safety: pure functions. For libcore/module alone; users print with << or str().

#include <cstdint>
#include <string>
#include <vector>

#include "libcore/base/shape.h"
#include "libcore/tensor/python_tuple.h"
#include "libcore/tensor/scalar.h"

namespace core {

class Module;

namespace detail {

/// "Linear", "ParametrizedLinear".
std::string shown_class_name(const Module& module);

/// Indents every line but the first by two spaces; blank lines stay empty.
std::string add_indent(const std::string& text);
/// "Name(" + indented lines + ")".
std::string framed(const std::string& name, const std::vector<std::string>& lines);
/// "True" or "False".
inline const char* python_bool(bool value) {
  return value ? "True" : "False";
}
/// A number as Python writes it: "2", "0.1", "1.0", "True".
std::string python_number(Scalar value);
/// One number for all dimensions as itself, several as a tuple: "3", "(3, 5)".
std::string python_sizes(const Shape& sizes);

}  // namespace detail
}  // namespace core
