#include "zoo/zoo.h"

#include <array>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/lenet.h"
#include "zoo/mlp.h"

namespace zoo {
namespace {

template <class M>
std::shared_ptr<core::Module> make_default() {
  return std::make_shared<M>();
}

constexpr std::array kModels = {
    Model{"lenet5", "LeNet-5, 28 x 28 grey images, 61,706 parameters", make_default<LeNet5>},
    Model{"mlp", "perceptron 784-256-10, 203,530 parameters", make_default<MLP>},
};

}  // namespace

std::span<const Model> list() {
  return kModels;
}

std::shared_ptr<core::Module> make(std::string_view name) {
  std::string names;
  for (const Model& model : kModels) {
    if (model.name == name) return model.make();
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  throw core::Error(core::ErrorCode::usage, "no model is named " + core::quote(name) + "; there are " + names);
}

}  // namespace zoo
