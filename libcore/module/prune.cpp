#include "libcore/module/prune.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/text.h"
#include "libcore/module/parametrize_list.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace core::prune {
namespace {

using core::detail::fail;
using core::detail::fail_value;

constexpr const char* kKind = "pruning";

struct OwnPruned final : core::detail::OwnMembers {
  Parameter orig;
  Tensor mask;

  std::unique_ptr<OwnMembers> copy() const override { return std::make_unique<OwnPruned>(*this); }
  void list(Members& m) override { m.parameter(name + "_orig", orig).buffer(name + "_mask", mask); }
  Tensor compute(bool) override { return mask.to(orig.dtype()) * orig; }
  const char* kind() const override { return kKind; }
};

OwnPruned* find(Module& module, const std::string& name) {
  if (!module.reparametrized()) return nullptr;
  for (const auto& own : module.reparametrized()->own) {
    if (own->name == name && std::string_view(own->kind()) == kKind) return static_cast<OwnPruned*>(own.get());
  }
  return nullptr;
}

std::string size_text(const Tensor& t) {
  return "torch.Size(" + to_list(t.sizes()) + ")";
}

/// The parameter as it is used now.
Tensor current(Module& module, const std::string& name) {
  if (OwnPruned* pruned = find(module, name)) return pruned->compute(false).detach();
  const Tensor* member = core::detail::written_member(module, name);
  if (member == nullptr || !member->defined()) {
    throw Error(ErrorCode::attribute, "'" + module.class_name() + "' object has no attribute '" + name + "'");
  }
  return member->detach();
}
Tensor current_mask(Module& module, const std::string& name) {
  const OwnPruned* pruned = find(module, name);
  return pruned != nullptr ? pruned->mask : ones_like(current(module, name));
}

void put_mask(Module& module, const std::string& name, const Tensor& mask) {
  OwnPruned* pruned = find(module, name);
  if (pruned == nullptr) {
    auto own = std::make_unique<OwnPruned>();
    own->name = name;
    static_cast<Tensor&>(own->orig) = *core::detail::written_member(module, name);
    pruned = own.get();
    module.reparametrized().make().own.push_back(std::move(own));
  }
  pruned->mask = mask;
  core::detail::recompute(module);
}

/// `count` of these scores, flat: 0 where they are pruned, else 1.
Tensor without(const Tensor& scores, std::int64_t count, bool largest) {
  const Tensor mask = ones({scores.numel()}, {.dtype = scores.dtype(), .device = scores.device()});
  if (count == 0) return mask;
  return scatter(mask, 0, topk(scores, count, -1, largest).indices, 0);
}

std::int64_t checked_count(const Amount& amount, std::int64_t size) {
  const std::int64_t count = amount.of(size);
  if (count <= size) return count;
  fail_value("amount=" + std::to_string(count) +
             " should be smaller than the number of parameters to prune=" + std::to_string(size));
}

/// Of the elements that the mask leaves, those that `scores_of` (their importance) says.
Tensor elements(const Tensor& importance, const Tensor& mask, const Amount& amount, Method method) {
  const Tensor left = importance.reshape({-1}).index({mask.reshape({-1}) == 1});
  const std::int64_t count = checked_count(amount, left.numel());
  const bool by_size = method == Method::l1_unstructured;
  const Tensor scores =
      by_size || count == 0 ? abs(left) : rand(left.sizes(), {.dtype = left.dtype()}).to(left.device());
  const Tensor kept = without(scores, count, !by_size), flat = mask.reshape({-1}).clone();
  flat.index_put_({flat == 1}, kept.to(flat.dtype()));
  return flat.reshape(mask.sizes());
}

void prune_elements(Module& module, const std::string& name, const Amount& amount, Method method,
                    const Tensor& importance) {
  amount.check();
  const NoGradGuard no_history;
  const Tensor weight = current(module, name);
  if (importance.defined() && importance.sizes() != weight.sizes()) {
    fail("importance_scores should have the same shape as parameter " + name + " of " + module.str() + ", got " +
             size_text(importance) + " vs " + size_text(weight),
         ErrorCode::assertion);
  }
  put_mask(module, name,
           elements(importance.defined() ? importance : weight, current_mask(module, name), amount, method));
}

/// Of the channels that the mask leaves something of. `keeps` is given those of the tensor (a channel each along `dim`)
/// and how many to prune, and gives their mask.
using Keeps = std::function<Tensor(const Tensor& channels, std::int64_t dim, std::int64_t count)>;

void prune_channels(Module& module, const std::string& name, const Amount& amount, std::int64_t dim,
                    const Tensor& importance, const Keeps& keeps) {
  amount.check();
  const NoGradGuard no_history;
  const Tensor weight = current(module, name), scores = importance.defined() ? importance : weight;
  if (weight.dim() <= 1) {
    fail_value("Structured pruning can only be applied to multidimensional tensors. Found tensor of shape " +
               size_text(weight) + " with " + std::to_string(weight.dim()) + " dims");
  }
  if (dim >= weight.dim() || dim < -weight.dim()) {
    fail("Invalid index " + std::to_string(dim) + " for tensor of size " + size_text(weight), ErrorCode::index);
  }
  const std::int64_t along = dim < 0 ? dim + weight.dim() : dim;
  const Tensor mask = current_mask(module, name).clone();
  Shape others, broadcast(static_cast<std::size_t>(weight.dim()), 1);
  for (std::int64_t d = 0; d < weight.dim(); ++d) {
    if (d != along) others.push_back(d);
  }
  const Tensor left = nonzero(sum(mask, {.dims = others}) != 0).reshape({-1});
  const Tensor channels = index_select(scores, along, left);
  const std::int64_t count = checked_count(amount, channels.size(along));
  if (count > 0) {
    const Tensor kept = zeros({weight.size(along)}, {.dtype = mask.dtype(), .device = mask.device()});
    broadcast[static_cast<std::size_t>(along)] = weight.size(along);
    const Tensor whole = scatter(kept, 0, left, keeps(channels, along, count).to(mask.dtype()));
    mask.mul_(whole.reshape(broadcast));
  }
  put_mask(module, name, mask);
}

}  // namespace

void Amount::check() const {
  if (is_fraction_ ? fraction_ >= 0 && fraction_ <= 1 : count_ >= 0) return;
  fail_value("amount=" + (is_fraction_ ? python_float(fraction_) : std::to_string(count_)) +
             " should either be a float in the range [0, 1] or a non-negative integer");
}
std::int64_t Amount::of(std::int64_t size) const {
  return is_fraction_ ? std::llrint(fraction_ * static_cast<double>(size)) : count_;
}

void identity(Module& module, const std::string& name) {
  put_mask(module, name, current_mask(module, name));
}
void random_unstructured(Module& module, const std::string& name, Amount amount) {
  prune_elements(module, name, amount, Method::random_unstructured, {});
}
void l1_unstructured(Module& module, const std::string& name, Amount amount, const Tensor& importance_scores) {
  prune_elements(module, name, amount, Method::l1_unstructured, importance_scores);
}

void random_structured(Module& module, const std::string& name, Amount amount, std::int64_t dim) {
  prune_channels(module, name, amount, dim, {}, [](const Tensor& channels, std::int64_t along, std::int64_t count) {
    const Tensor drawn = rand({channels.size(along)}).to(channels.device());
    return drawn > kthvalue(drawn, count).values;
  });
}
void ln_structured(Module& module, const std::string& name, Amount amount, double n, std::int64_t dim,
                   const Tensor& importance_scores) {
  prune_channels(module, name, amount, dim, importance_scores,
                 [n](const Tensor& channels, std::int64_t along, std::int64_t count) {
                   Shape others;
                   for (std::int64_t d = 0; d < channels.dim(); ++d) {
                     if (d != along) others.push_back(d);
                   }
                   const Tensor size = norm(channels, {.p = n, .dims = others});
                   const std::int64_t kept = size.numel() - count;
                   return 1 - without(size, kept, true);
                 });
}

void custom_from_mask(Module& module, const std::string& name, const Tensor& mask) {
  const NoGradGuard no_history;
  const Tensor before = current_mask(module, name);
  if (before.sizes() != mask.sizes()) {
    fail("default_mask shape " + size_text(before) + " must match self.mask shape " + size_text(mask),
         ErrorCode::assertion);
  }
  put_mask(module, name, before * mask.to(before.dtype()));
}

void global_unstructured(const std::vector<std::pair<Module*, std::string>>& parameters, Method method, Amount amount) {
  amount.check();
  if (parameters.empty()) fail_value("torch.cat(): expected a non-empty list of Tensors");
  const NoGradGuard no_history;
  std::vector<Tensor> values, masks;
  for (const auto& [module, name] : parameters) {
    if (module == nullptr) fail("'NoneType' object has no attribute '" + name + "'", ErrorCode::attribute);
    values.push_back(current(*module, name).reshape({-1}));
    masks.push_back(current_mask(*module, name).reshape({-1}));
  }
  const Tensor all = elements(cat(values), cat(masks), amount, method);
  std::int64_t at = 0;
  for (const auto& [module, name] : parameters) {
    const Tensor like = current(*module, name);
    custom_from_mask(*module, name, all.narrow(0, at, like.numel()).reshape(like.sizes()));
    at += like.numel();
  }
}

void remove(Module& module, const std::string& name) {
  OwnPruned* pruned = find(module, name);
  if (pruned == nullptr) {
    fail_value("Parameter '" + name + "' of module " + module.str() +
               " has to be pruned before pruning can be removed");
  }
  const Tensor orig = pruned->orig;
  orig.set_data(pruned->compute(false).detach());
  core::detail::ReparametrizedPtr& all = module.reparametrized();
  std::erase_if(all->own, [&](const auto& own) { return own.get() == pruned; });
  *core::detail::written_member(module, name) = orig;
  if (all->empty()) all.reset();
}

bool is_pruned(Module& module) {
  for (Module* each : module.modules()) {
    if (!each->reparametrized()) continue;
    for (const auto& own : each->reparametrized()->own) {
      if (std::string_view(own->kind()) == kKind) return true;
    }
  }
  return false;
}

}  // namespace core::prune
