#pragma once
// The name of a C++ class as a user wrote it, for printing. Thread safety: pure function.
// Use: core::short_class_name(typeid(core::Linear)) == "Linear";

#include <string>
#include <typeinfo>

namespace core {

/// Without namespaces, enclosing classes and template arguments.
std::string short_class_name(const std::type_info& type);

}  // namespace core
