#include "libcore/base/error.h"
#include "libcore/module/module_base.h"
#include "libcore/module/walk.h"
#include "libcore/tensor/uninitialized.h"

namespace core {
namespace {

struct Target {
  std::optional<Device> device;
  std::optional<DType> dtype;
  std::optional<MemoryFormat> format = {};

  Tensor converted(const Tensor& tensor) const {
    if (tensor.is_meta() && device && !device->is_meta()) {
      throw Error(ErrorCode::not_implemented,
                  "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                  "torch.nn.Module.to() when moving module from meta to a different device.");
    }
    if (is_uninitialized(tensor)) {
      return uninitialized_like(tensor.detach(), device.value_or(tensor.device()), dtype.value_or(tensor.dtype()));
    }
    const bool cast = dtype && (is_floating(tensor.dtype()) || is_complex(tensor.dtype()));
    const bool is_image = tensor.dim() == 4 || tensor.dim() == 5;
    return tensor.detach().to({.device = device.value_or(tensor.device()),
                               .dtype = cast ? *dtype : tensor.dtype(),
                               .memory_format = is_image ? format : std::nullopt});
  }
};

/// The tensor keeps its identity; its gradient goes with it.
void convert_parameter(const Tensor& parameter, const Target& target) {
  const Tensor grad = parameter.is_leaf() ? parameter.grad() : Tensor();
  parameter.set_grad({});
  parameter.set_data(target.converted(parameter));
  if (grad.defined()) parameter.set_grad(target.converted(grad));
}

/// Everything below `module`, children first.
void convert_all(Module& module, const Target& target) {
  const Members own(module);
  for (const ChildMember& child : own.children()) {
    if (child.module) convert_all(*child.module, target);
  }
  for (const TensorMember& member : own.parameters()) {
    if (member.tensor->defined()) convert_parameter(*member.tensor, target);
  }
  for (const TensorMember& member : own.buffers()) {
    if (member.tensor->defined()) *member.tensor = target.converted(*member.tensor);
  }
}

}  // namespace

void Module::to(MemoryFormat format) {
  convert_all(*this, {.device = {}, .dtype = {}, .format = format});
}

void Module::convert(std::optional<Device> device, std::optional<DType> dtype) {
  if (dtype && !is_floating(*dtype) && !is_complex(*dtype)) {
    throw Error(ErrorCode::type,
                "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch." +
                    std::string(name(*dtype)));
  }
  convert_all(*this, {.device = device, .dtype = dtype});
}

namespace {

Tensor emptied(const Tensor& tensor, Device device) {
  if (is_uninitialized(tensor)) return uninitialized_like(tensor.detach(), device, tensor.dtype());
  return empty_like(tensor.detach(), {.device = device});
}

}  // namespace

void Module::to_empty(Device device, bool recurse) {
  const NamedModules all = recurse ? named_modules() : NamedModules{{"", this}};
  for (const auto& [name, module] : all) {
    const Members own(*module);
    for (const TensorMember& member : own.parameters()) {
      if (member.tensor->defined()) member.tensor->set_data(emptied(*member.tensor, device));
    }
    for (const TensorMember& member : own.buffers()) {
      if (member.tensor->defined()) *member.tensor = emptied(*member.tensor, device);
    }
  }
}

}  // namespace core
