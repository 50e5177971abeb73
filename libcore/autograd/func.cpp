#include "libcore/autograd/func.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/batching.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/base/fail.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"

namespace core::func::detail {
namespace {

using core::detail::fail;
using core::detail::fail_value;

/// Whether a gradient of `outputs` would reach a leaf that is none of `own`.
bool reaches_others(const std::vector<Tensor>& outputs, const std::vector<Tensor>& own) {
  std::unordered_set<const Node*> known;
  for (const Tensor& leaf : own) known.insert(gradient_edge(leaf).node.get());
  std::vector<const Node*> open;
  std::vector<IntrusivePtr<Node>> roots;
  for (const Tensor& y : outputs) {
    if (y.defined() && y.requires_grad()) roots.push_back(gradient_edge(y).node);
  }
  for (const auto& root : roots) {
    if (known.insert(root.get()).second) open.push_back(root.get());
  }
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (node->is_accumulator()) return true;
    for (const Edge& edge : node->direct_edges()) {
      if (edge.node && known.insert(edge.node.get()).second) open.push_back(edge.node.get());
    }
  }
  return false;
}

Shape sizes_of_both(const Shape& a, const Shape& b) {
  Shape sizes = a;
  for (const std::int64_t size : b) sizes.push_back(size);
  return sizes;
}

/// 1 at place i, else 0, in the form of `like`.
Tensor unit(const Tensor& like, std::int64_t i) {
  const Tensor flat = zeros({like.numel()}, {.dtype = like.dtype(), .device = like.device()});
  flat.select(0, i).fill_(1);
  return flat.reshape(like.sizes());
}

void check_real(const char* name, const char* what, const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!is_complex(tensors[i].dtype())) continue;
    fail(std::string(name) + ": Expected all " + what + " to be real but received complex tensor at flattened input " +
         "idx: " + std::to_string(i));
  }
}

std::string torch_size(const Tensor& t) {
  return "torch.Size(" + to_list(t.sizes()) + ")";
}

}  // namespace

// --- Derivation

Derivation::Derivation() : outside_(is_grad_enabled()) {}

namespace {

/// What stands for `x` in a function whose derivative is wanted; a leaf of its own is put into `leaves`. Within vmap()
/// both the first sample and the whole batch get one, a batch also where x is the same for all samples.
Tensor derivation_input(const Tensor& x, bool tracked, std::vector<Tensor>& leaves) {
  if (Batching* const batching = Batching::of_thread()) {
    const Tensor all = batching->whole(x);
    const Tensor batch = batching->outside([&] { return derivation_input(all, tracked, leaves); });
    const core::detail::OpBatchScope alone(nullptr);
    return batching->stands_for(derivation_input(x, tracked, leaves), batch);
  }
  if (tracked && x.requires_grad()) {
    const GradModeGuard history(true);
    return x.view_as(x);
  }
  leaves.push_back(x.detach().requires_grad_());
  return leaves.back();
}

/// core::grad; within vmap() that of all samples, which do not touch each other.
std::vector<Tensor> slopes_of(const std::vector<Tensor>& ends, const std::vector<Tensor>& inputs,
                              const GradOptions& options) {
  Batching* const batching = Batching::of_thread();
  if (batching == nullptr) return core::grad(ends, inputs, options);
  std::vector<Tensor> all_ends, all_inputs;
  GradOptions all = options;
  all.grad_outputs.clear();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    all_ends.push_back(batching->batch_of(ends[i]));
    if (!all_ends.back().defined()) batching->give_up();
    const bool given = i < options.grad_outputs.size() && options.grad_outputs[i].defined();
    if (given) {
      all.grad_outputs.push_back(batching->whole(options.grad_outputs[i]));
    } else {
      all.grad_outputs.push_back(batching->outside([&] { return ones_like(all_ends.back().detach()); }));
    }
  }
  for (const Tensor& x : inputs) all_inputs.push_back(batching->whole(x));
  const std::vector<Tensor> found = batching->outside([&] { return slopes_of(all_ends, all_inputs, all); });
  std::vector<Tensor> firsts;
  for (const Tensor& slope : found) firsts.push_back(slope.defined() ? batching->first_of(slope) : Tensor());
  return firsts;
}

}  // namespace

Tensor Derivation::input(const Tensor& x) {
  if (!is_inexact(x.dtype())) fail("only Tensors of floating point dtype can require gradients");
  inputs_.push_back(derivation_input(x, outside_, own_leaves_));
  return inputs_.back();
}

void Derivation::finish(std::vector<Tensor> outputs) {
  outputs_ = std::move(outputs);
  tracked_ = outside_ && reaches_others(outputs_, own_leaves_);
}

Tensor Derivation::shown(const Tensor& output) const {
  return tracked_ ? output : output.detach();
}

std::vector<Tensor> Derivation::slopes(const std::vector<Tensor>& of, const std::vector<Tensor>& ups,
                                       bool tracked) const {
  GradOptions options{.retain_graph = true, .create_graph = tracked, .allow_unused = true, .materialize_grads = true};
  std::vector<Tensor> ends;
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (!of[i].requires_grad()) continue;
    ends.push_back(of[i]);
    options.grad_outputs.push_back(i < ups.size() ? ups[i] : Tensor());
  }
  std::vector<Tensor> result;
  if (!ends.empty()) return slopes_of(ends, inputs_, options);
  for (const Tensor& x : inputs_) result.push_back(zeros_like(x.detach()));
  return result;
}

std::vector<Tensor> Derivation::gradients() const {
  const Tensor& y = outputs_.at(0);
  if (y.dim() != 0) {
    fail("grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with " +
         std::to_string(y.dim()) + " dims. Maybe you wanted to use the vjp or jacrev APIs instead?");
  }
  return slopes(outputs_, {}, tracked_);
}

std::vector<Tensor> Derivation::pulled_back(const std::vector<Tensor>& cotangents) const {
  if (cotangents.size() != outputs_.size()) {
    fail("Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function.");
  }
  bool tracked = tracked_;
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (cotangents[i].sizes() != outputs_[i].sizes()) {
      fail("Mismatch in shape: grad_output[" + std::to_string(i) + "] has a shape of " + torch_size(cotangents[i]) +
           " and output[" + std::to_string(i) + "] has a shape of " + torch_size(outputs_[i]) + ".");
    }
    tracked = tracked || needs_grad(cotangents[i]);
  }
  return slopes(outputs_, cotangents, tracked && is_grad_enabled());
}

/// The product with a row is linear in the row: its derivative along a tangent is the product with that column.
std::vector<Tensor> Derivation::pushed_forward(const std::vector<Tensor>& tangents) const {
  if (tangents.size() != inputs_.size()) {
    fail("jvp(f, primals, tangents): Expected primals and tangents to have the same python structure.");
  }
  const GradModeGuard history(true);
  bool tracked = tracked_;
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    if (tangents[i].sizes() != inputs_[i].sizes()) {
      fail(
          "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
          "supported. Tensor is of size " +
          to_list(inputs_[i].sizes()) + " while the given forward gradient is of size " + to_list(tangents[i].sizes()) +
          ".");
    }
    tracked = tracked || (outside_ && tangents[i].requires_grad());
  }
  std::vector<Tensor> rows, products, ends, ups;
  std::vector<Tensor> leaves;
  for (const Tensor& y : outputs_) rows.push_back(derivation_input(zeros_like(y.detach()), false, leaves));
  products = slopes(outputs_, rows, true);
  for (std::size_t i = 0; i < products.size(); ++i) {
    if (!products[i].requires_grad()) continue;
    ends.push_back(products[i]);
    ups.push_back(tangents[i]);
  }
  std::vector<Tensor> result;
  if (!ends.empty()) {
    return slopes_of(ends, rows,
                     {.grad_outputs = ups,
                      .retain_graph = true,
                      .create_graph = tracked,
                      .allow_unused = true,
                      .materialize_grads = true});
  }
  for (const Tensor& y : outputs_) result.push_back(zeros_like(y.detach()));
  return result;
}

std::vector<Tensor> Derivation::by_rows(const Tensor& output) const {
  check_real("jacrev", "inputs", inputs_);
  check_real("jacrev", "outputs", {output});
  const GradModeGuard history(tracked_);
  std::vector<std::vector<Tensor>> rows(inputs_.size());
  for (std::int64_t i = 0; i < output.numel(); ++i) {
    const std::vector<Tensor> row = slopes({output}, {unit(output.detach(), i)}, tracked_);
    for (std::size_t k = 0; k < row.size(); ++k) rows[k].push_back(row[k]);
  }
  std::vector<Tensor> result;
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    const Shape sizes = sizes_of_both(output.sizes(), inputs_[k].sizes());
    result.push_back(rows[k].empty() ? zeros(sizes, {.dtype = output.dtype(), .device = output.device()})
                                     : stack(rows[k]).reshape(sizes));
  }
  return result;
}

std::vector<Tensor> Derivation::by_columns(const Tensor& output) const {
  check_real("jacfwd", "inputs", inputs_);
  check_real("jacfwd", "outputs", {output});
  std::vector<Tensor> result, tangents;
  for (const Tensor& x : inputs_) tangents.push_back(zeros_like(x.detach()));
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    const Shape sizes = sizes_of_both(output.sizes(), inputs_[k].sizes());
    std::vector<Tensor> columns;
    for (std::int64_t i = 0; i < inputs_[k].numel(); ++i) {
      tangents[k] = unit(inputs_[k].detach(), i);
      columns.push_back(pushed_forward(tangents)[0]);
    }
    tangents[k] = zeros_like(inputs_[k].detach());
    const GradModeGuard history(tracked_);
    result.push_back(columns.empty() ? zeros(sizes, {.dtype = output.dtype(), .device = output.device()})
                                     : stack(columns, -1).reshape(sizes));
  }
  return result;
}

// --- Batch

Batch::Batch(const VmapOptions& options, std::size_t arguments) : options_(options) {
  if (arguments == 0) {
    fail_value(
        "vmap: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no "
        "inputs. The latter is unsupported.");
  }
  if (!options.in_dims.empty() && options.in_dims.size() != arguments) {
    fail_value("vmap: in_dims is not compatible with the structure of `inputs`: it has " +
               std::to_string(options.in_dims.size()) + " dimensions for " + std::to_string(arguments) + " arguments");
  }
  if (options.out_dims.empty()) fail_value("vmap: out_dims names no dimension");
  random_.emplace_back(Device(), ByteVector());
}

void Batch::add(const std::vector<Tensor>& leaves) {
  const std::size_t number = dims_.size();
  dims_.push_back(options_.in_dims.empty() ? std::optional<std::int64_t>(0) : options_.in_dims[number]);
  for (const Tensor& x : leaves) {
    const auto is_same = [&](const auto& known) { return known.first == x.device(); };
    if (x.is_cuda() && std::none_of(random_.begin(), random_.end(), is_same))
      random_.emplace_back(x.device(), ByteVector());
    if (!dims_[number]) {
      shared_.push_back({x, x.version()});
      continue;
    }
    const std::int64_t dim = *dims_[number], rank = x.dim();
    if (dim < -rank || dim >= rank) {
      fail_value("vmap(in_dims=" + std::to_string(dim) + ", ...)(<inputs>): Got in_dim=" + std::to_string(dim) +
                 " for some input, but that input is a Tensor of dimensionality " + std::to_string(rank) +
                 " so expected in_dim to satisfy -" + std::to_string(rank) + " <= in_dim < " + std::to_string(rank) +
                 ".");
    }
    sizes_.push_back(x.size(dim));
  }
}

std::int64_t Batch::size() const {
  if (sizes_.empty()) fail_value("vmap: no argument has a dimension that runs over the samples: all in_dims are none");
  for (const std::int64_t size : sizes_) {
    if (size == sizes_[0]) continue;
    std::string text;
    for (const std::int64_t each : sizes_) text += (text.empty() ? "" : ", ") + std::to_string(each);
    fail_value("vmap: Expected all tensors to have the same size in the mapped dimension, got sizes [" + text +
               "] for the mapped dimension");
  }
  if (sizes_[0] == 0) fail_value("vmap: there are no samples, so the form of the results is not known");
  return sizes_[0];
}

Tensor Batch::sample(const Tensor& x, std::size_t argument, std::int64_t i) const {
  return dims_[argument] ? x.select(*dims_[argument], i) : x;
}

void Batch::before(std::int64_t i) {
  for (auto& [device, state] : random_) {
    if (i == 0) {
      state = default_generator(device).state();
    } else if (options_.randomness == Randomness::same) {
      default_generator(device).set_state(state);
    }
  }
}

void Batch::check_shared() const {
  for (const Shared& kept : shared_) {
    if (kept.tensor.version() == kept.version) continue;
    fail(
        "vmap: an argument that is the same for all samples (in_dims: none) was changed in place; change a copy of it");
  }
}

void Batch::after(std::int64_t, std::vector<Tensor> results) {
  check_shared();
  for (const auto& [device, state] : random_) {
    if (options_.randomness != Randomness::error || default_generator(device).state() == state) continue;
    fail(
        "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
        "randomness flags on vmap or perform the randomness operation out of vmap");
  }
  results_.push_back(std::move(results));
}

std::vector<Tensor> Batch::stacked() const {
  std::vector<Tensor> result;
  for (std::size_t k = 0; k < results_[0].size(); ++k) {
    std::vector<Tensor> samples;
    for (const auto& of_sample : results_) samples.push_back(of_sample.at(k));
    const std::int64_t dim = options_.out_dims[std::min(k, options_.out_dims.size() - 1)];
    result.push_back(stack(samples, raw::wrap_dim(dim, samples[0].dim() + 1)));
  }
  return result;
}

Tensor Batch::first(Batching& batching, const Tensor& x, std::size_t argument) const {
  if (!dims_[argument]) return x;
  const Tensor batch = batching.outside([&] { return x.movedim(*dims_[argument], 0); });
  batching.protect(x);
  return batching.first_of(batch);
}

void Batch::start_again() const {
  for (const auto& [device, state] : random_) {
    if (!state.empty()) default_generator(device).set_state(state);
  }
}

/// Whether no random number was drawn: by samples they come in another order.
bool Batch::drew_nothing() const {
  return std::all_of(random_.begin(), random_.end(),
                     [](const auto& one) { return default_generator(one.first).state() == one.second; });
}

std::optional<std::vector<Tensor>> Batch::joined(Batching& batching, const std::vector<Tensor>& results) const {
  if (batching.has_failed() || !drew_nothing()) return std::nullopt;
  std::vector<Tensor> all;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Tensor batch = batching.whole(results[k]);
    const std::int64_t dim = options_.out_dims[std::min(k, options_.out_dims.size() - 1)];
    const std::int64_t to = raw::wrap_dim(dim, results[k].dim() + 1);
    all.push_back(batching.outside([&] {
      // Dense, and nobody else's, as a stack of the samples' results would be.
      const Tensor moved = batch.movedim(0, to);
      return moved.is_contiguous() ? moved.clone() : moved.contiguous();
    }));
  }
  return all;
}

std::optional<std::vector<Tensor>> Batch::at_once(const AtOnce& call) {
  if (size() < 2 || !Batching::may_begin()) return std::nullopt;
  before(0);
  try {
    Batching batching(size());
    std::optional<std::vector<Tensor>> results = joined(batching, call(batching));
    check_shared();
    if (results) return results;
  } catch (const NotBatched&) {
  }
  start_again();
  return std::nullopt;
}

}  // namespace core::func::detail
