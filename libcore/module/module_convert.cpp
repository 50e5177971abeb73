#include <unordered_map>
#include <vector>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/module/module_base.h"
#include "libcore/module/walk.h"
#include "libcore/tensor/foreach_copy.h"
#include "libcore/tensor/uninitialized.h"

namespace core {
namespace {

/// What was moved together beforehand.
using Moved = std::unordered_map<const TensorImpl*, Tensor>;

struct Target {
  std::optional<Device> device;
  std::optional<DType> dtype;
  std::optional<MemoryFormat> format = {};
  Moved* moved = nullptr;

  Tensor converted(const Tensor& tensor) const {
    if (moved != nullptr) {  // each once: a buffer that two modules have becomes two, as in PyTorch
      if (auto node = moved->extract(tensor.impl()); !node.empty()) return std::move(node.mapped());
    }
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

/// Every tensor below `module` that Target::converted() would only move.
void collect(Module& module, const Target& target, std::vector<Tensor>& tensors) {
  const auto take = [&](const Tensor& tensor) {
    if (!tensor.defined() || tensor.is_meta() || is_uninitialized(tensor)) return;
    const bool cast = target.dtype && (is_floating(tensor.dtype()) || is_complex(tensor.dtype()));
    if (!cast || tensor.dtype() == *target.dtype) tensors.push_back(tensor);
  };
  const Members own(module);
  for (const ChildMember& child : own.children()) {
    if (child.module) collect(*child.module, target, tensors);
  }
  for (const TensorMember& member : own.parameters()) {
    take(*member.tensor);
    if (member.tensor->defined() && member.tensor->is_leaf()) take(member.tensor->grad());
  }
  for (const TensorMember& member : own.buffers()) take(*member.tensor);
}

/// True where tensors that go to `device`, or come from others, go faster together.
bool goes_together(Device device) {
  const Backend& target = backend_for(device);
  if (!target.device().is_cpu()) return target.has_memory() && !target.is_host_memory();
  return cuda::is_initialized() && cuda::is_available() && !backend_for(DeviceType::cuda).is_host_memory();
}

/// Moves all at once what only moves.
Moved move_together(Module& module, const Target& target) {
  Moved moved;
  if (!target.device || !goes_together(*target.device)) return moved;
  std::vector<Tensor> tensors, plain;
  collect(module, target, tensors);
  for (const Tensor& tensor : tensors) {
    if (tensor.device() != resolve(*target.device) && moved.emplace(tensor.impl(), Tensor()).second) {
      plain.push_back(tensor.detach());
    }
  }
  std::vector<Tensor> there = to_device(plain, *target.device);
  std::size_t next = 0;
  for (const Tensor& tensor : tensors) {
    const auto found = moved.find(tensor.impl());
    if (found != moved.end() && !found->second.defined()) found->second = std::move(there[next++]);
  }
  return moved;
}

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
  Target target{.device = device, .dtype = dtype};
  Moved moved = move_together(*this, target);
  target.moved = &moved;
  convert_all(*this, target);
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
