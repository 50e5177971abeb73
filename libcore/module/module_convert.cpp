#include "libcore/base/error.h"
#include "libcore/module/module.h"
#include "libcore/module/walk.h"
#include "libcore/tensor/factory.h"

namespace core {
namespace {

struct Target {
  std::optional<Device> device;
  std::optional<DType> dtype;

  Tensor converted(const Tensor& tensor) const {
    if (tensor.is_meta() && device && !device->is_meta()) {
      throw Error(ErrorCode::not_implemented,
                  "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                  "torch.nn.Module.to() when moving module from meta to a different device.");
    }
    const bool cast = dtype && (is_floating(tensor.dtype()) || is_complex(tensor.dtype()));
    return tensor.detach().to(device.value_or(tensor.device()), cast ? *dtype : tensor.dtype());
  }
};

/// The tensor keeps its identity; its gradient goes with it.
void convert_parameter(const Tensor& parameter, const Target& target) {
  const Tensor grad = parameter.is_leaf() ? parameter.grad() : Tensor();
  parameter.set_grad({});
  parameter.set_data(target.converted(parameter));
  if (grad.defined()) parameter.set_grad(target.converted(grad));
}

}  // namespace

void Module::convert(std::optional<Device> device, std::optional<DType> dtype) {
  if (dtype && !is_floating(*dtype) && !is_complex(*dtype)) {
    throw Error(ErrorCode::type,
                "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch." +
                    std::string(name(*dtype)));
  }
  const Members own(*this);
  for (const ChildMember& child : own.children()) {
    if (child.module) child.module->convert(device, dtype);
  }
  const Target target{device, dtype};
  for (const TensorMember& member : own.parameters()) {
    if (member.tensor->defined()) convert_parameter(*member.tensor, target);
  }
  for (const TensorMember& member : own.buffers()) {
    if (member.tensor->defined()) *member.tensor = target.converted(*member.tensor);
  }
}

void Module::to_empty(Device device, bool recurse) {
  const NamedModules all = recurse ? named_modules() : NamedModules{{"", this}};
  for (const auto& [name, module] : all) {
    const Members own(*module);
    for (const TensorMember& member : own.parameters()) {
      if (member.tensor->defined()) member.tensor->set_data(empty_like(member.tensor->detach(), {.device = device}));
    }
    for (const TensorMember& member : own.buffers()) {
      if (member.tensor->defined()) *member.tensor = empty_like(member.tensor->detach(), {.device = device});
    }
  }
}

}  // namespace core
