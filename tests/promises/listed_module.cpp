#include "tests/promises/listed_module.h"

#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libcore/module/norm.h"
#include "libcore/tensor/factory.h"

namespace test {
namespace {

using Named = std::vector<std::pair<std::string, core::Tensor>>;

class ListedModule : public core::ModuleOf<ListedModule> {
 public:
  ListedModule(std::string name, int version) : name_(std::move(name)), version_(version) {}
  std::string class_name() const override { return name_; }
  int version() const override { return version_; }
  void members(core::Members& m) override {
    for (auto& [name, tensor] : parameters) m.parameter(name, tensor);
    for (auto& [name, tensor] : buffers) m.buffer(name, tensor);
    for (auto& [name, child] : children) m.child(name, child);
  }

  Named parameters, buffers;
  std::vector<std::pair<std::string, std::shared_ptr<core::Module>>> children;

 private:
  std::string name_;
  int version_;
};

Named tensors_of(Json list) {
  Named named;
  for (Json item : items(list)) {
    named.emplace_back(text(item.at(0)), core::zeros(shape(item.at(1)), {.dtype = dtype(item.at(2))}));
  }
  return named;
}

/// libcore's own layer, or null for a class without load rules.
std::shared_ptr<core::Module> norm_of(const std::string& kind, const Named& parameters, const Named& buffers) {
  if (buffers.empty()) return nullptr;
  const std::int64_t features = buffers[0].second.sizes()[0];
  const core::BatchNormOptions batch{.affine = !parameters.empty()};
  const core::InstanceNormOptions instance{.affine = !parameters.empty(), .track_running_stats = true};
  if (kind == "BatchNorm1d") return std::make_shared<core::BatchNorm1d>(features, batch);
  if (kind == "BatchNorm2d") return std::make_shared<core::BatchNorm2d>(features, batch);
  if (kind == "BatchNorm3d") return std::make_shared<core::BatchNorm3d>(features, batch);
  if (kind == "InstanceNorm1d") return std::make_shared<core::InstanceNorm1d>(features, instance);
  if (kind == "InstanceNorm2d") return std::make_shared<core::InstanceNorm2d>(features, instance);
  return nullptr;
}

std::shared_ptr<core::Module> make_one(Json record) {
  const std::string kind = text(record["class"]);
  Named parameters = tensors_of(record["parameters"]), buffers = tensors_of(record["buffers"]);
  if (auto norm = norm_of(kind, parameters, buffers)) return norm;
  const int version = has(record, "version") ? static_cast<int>(integer(record["version"])) : 1;
  auto module = std::make_shared<ListedModule>(kind, version);
  module->parameters = std::move(parameters);
  module->buffers = std::move(buffers);
  return module;
}

}  // namespace

std::shared_ptr<core::Module> make_listed_module(Json model) {
  std::unordered_map<std::string, std::shared_ptr<core::Module>> made;
  for (Json record : items(model["modules"])) {
    const std::string path = text(record["path"]);
    auto module = made[path] = make_one(record);
    if (path.empty()) continue;
    const std::size_t dot = path.rfind('.');
    const std::string above = dot == std::string::npos ? "" : path.substr(0, dot);
    auto parent = std::dynamic_pointer_cast<ListedModule>(made[above]);
    if (!parent) throw std::runtime_error("no module for " + path);
    parent->children.emplace_back(path.substr(dot == std::string::npos ? 0 : dot + 1), module);
  }
  if (!made.contains("")) throw std::runtime_error("the list has no outermost module");
  return made[""];
}

}  // namespace test
