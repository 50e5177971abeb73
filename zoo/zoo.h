#pragma once
// The model zoo by name: which models there are, and one of them built with freshly drawn parameters.
// Thread safety: list() is a constant; make() draws from the default generator. Use: auto net = zoo::make("lenet5");

#include <memory>
#include <span>
#include <string_view>

#include "libcore/module/module.h"

namespace zoo {

struct Model {
  std::string_view name;   ///< "lenet5"
  std::string_view about;  ///< one line for a person
  std::shared_ptr<core::Module> (*make)();
};

/// All models, by name.
std::span<const Model> list();
/// Error(usage) that lists the names when there is no such model.
std::shared_ptr<core::Module> make(std::string_view name);

}  // namespace zoo
