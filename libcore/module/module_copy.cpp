#include <unordered_map>
#include <unordered_set>

#include "libcore/base/error.h"
#include "libcore/module/module_base.h"
#include "libcore/module/walk.h"
#include "libcore/tensor/uninitialized.h"

namespace core {
namespace detail {
namespace {

using Copies = std::unordered_map<const Module*, std::shared_ptr<Module>>;

void own_children(Module& module, Copies& copies) {
  const Members own(module);
  for (const ChildMember& child : own.children()) {
    if (!child.module) continue;
    if (!child.rebind) {
      own_children(*child.module, copies);
      continue;
    }
    const auto [known, fresh] = copies.emplace(child.module, nullptr);
    if (fresh) {
      const std::shared_ptr<Module> copy = child.module->copy();
      copies[child.module] = copy;
      own_children(*copy, copies);
    }
    child.rebind(copies[child.module]);
  }
}

/// A copy of the values, leaf again, with the gradient copied too.
Tensor copied(const Tensor& tensor) {
  if (is_uninitialized(tensor)) return uninitialized_like(tensor, tensor.device(), tensor.dtype());
  if (!tensor.is_leaf()) {
    throw Error(ErrorCode::runtime,
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment.  If you were attempting to deepcopy a module, this may be because of a torch.nn.utils."
                "weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001");
  }
  Tensor result = tensor.detach().clone();
  if (tensor.requires_grad()) result.requires_grad_(true);
  const Tensor grad = tensor.grad();
  if (grad.defined()) result.set_grad(grad.detach().clone());
  return result;
}

}  // namespace

void own_children(Module& module) {
  Copies copies;
  own_children(module, copies);
}

void own_tensors(Module& module) {
  std::unordered_map<const TensorImpl*, Tensor> copies;
  std::unordered_set<Tensor*> done;
  for (const TensorSlot& slot : module.tensor_slots()) {
    if (!slot.tensor->defined() || !done.insert(slot.tensor).second) continue;
    const auto [known, fresh] = copies.try_emplace(slot.tensor->impl());
    if (fresh) known->second = copied(*slot.tensor);
    *slot.tensor = known->second;
  }
}

}  // namespace detail

namespace {

void check_initialized(Module& module) {
  const Members own(module);
  for (const TensorMember& member : own.parameters()) {
    if (!is_uninitialized(*member.tensor)) continue;
    throw Error(ErrorCode::runtime,
                "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
                "correctly initialize the modules");
  }
}

}  // namespace

std::shared_ptr<Module> Module::replicate() const {
  std::shared_ptr<Module> result = copy();
  detail::own_children(*result);
  return result;
}

void Module::mark_replica_of(Module& original) {
  const NamedModules copies = named_modules(), originals = original.named_modules();
  for (std::size_t i = 0; i < copies.size() && i < originals.size(); ++i) {
    Module& model = *originals[i].second;
    check_initialized(model);
    copies[i].second->original_ = model.is_replica() ? model.original_ : &model;
  }
}

std::shared_ptr<Module> Module::deep_copy() const {
  std::shared_ptr<Module> result = replicate();
  detail::own_tensors(*result);
  return result;
}

}  // namespace core
