#include "libcore/dist/reducer.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_set>
#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/base/text.h"
#include "libcore/dist/init.h"
#include "libcore/dist/sparse_sum.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"

namespace core::distributed {
namespace {

/// Of a bucket and of a gradient in it: copying less costs less than a tensor.
constexpr std::int64_t kLendsFrom = std::int64_t{256} << 10;

bool is_debugging() {
  const char* level = std::getenv("TORCH_DISTRIBUTED_DEBUG");
  return level != nullptr && (std::string(level) == "INFO" || std::string(level) == "DETAIL");
}

std::string joined(const std::vector<std::int64_t>& numbers, const char* between) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : between) + std::to_string(number);
  return text;
}

/// All nodes from which the outputs came.
std::unordered_set<const Node*> nodes_behind(const std::vector<Tensor>& outputs) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> waiting;
  const auto visit = [&](const Node* node) {
    if (node != nullptr && seen.insert(node).second) waiting.push_back(node);
  };
  for (const Tensor& output : outputs) {
    if (output.defined() && output.requires_grad()) visit(gradient_edge(output).node.get());
  }
  while (!waiting.empty()) {
    const Node* node = waiting.back();
    waiting.pop_back();
    for (const Edge& edge : node->direct_edges()) visit(edge.node.get());
  }
  return seen;
}

[[noreturn]] void fail_by_hook(const Tensor& result, const Tensor& contents) {
  core::detail::fail("a communication hook gave back " +
                     (result.defined() ? std::string(core::name(result.dtype())) + " " + to_list(result.sizes())
                                       : std::string("no tensor")) +
                     " for a bucket of " + std::string(core::name(contents.dtype())) + " " + to_list(contents.sizes()));
}

/// A sparse tensor of a parameter's size with nothing in it.
Tensor no_places(const Tensor& like) {
  const TensorOptions options{.dtype = like.dtype(), .device = like.device()};
  return sparse_coo_tensor(zeros({1, 0}, {.dtype = DType::i64, .device = like.device()}),
                           zeros({0, like.size(1)}, options), like.sizes());
}

void take_sparse(const Tensor& contents, const Tensor& result) {
  const bool fits = result.defined() && result.is_sparse() && result.dtype() == contents.dtype() &&
                    result.sizes() == contents.sizes();
  if (!fits) fail_by_hook(result, contents);
  if (!result.is_same(contents)) core::detail::set_parts(contents, core::detail::parts_of(result));
}

}  // namespace

Reducer::Reducer(std::vector<std::pair<std::string, Tensor>> params, std::vector<Indices> buckets,
                 ReducerOptions options)
    : params_(std::move(params)), options_(std::move(options)) {
  make_buckets(buckets);
  for (const Bucket& bucket : buckets_) stats_.bucket_sizes.push_back(bytes_of(bucket));
  hook_counts_.assign(params_.size(), 0);
  if (options_.find_unused || options_.static_graph) {
    used_ = zeros({static_cast<std::int64_t>(params_.size())}, {.dtype = DType::i32});
  }
  for (std::size_t i = 0; i < params_.size(); ++i) {
    hooks_.push_back(
        params_[i].second.register_post_accumulate_grad_hook([this, i](const Tensor&) { on_gradient(i); }));
  }
}

Reducer::~Reducer() {
  for (std::size_t i = 0; i < params_.size(); ++i) params_[i].second.remove_hook(hooks_[i]);
}

Tensor Reducer::view_for(const Tensor& param, const Tensor& contents, std::int64_t at) const {
  if (!param.is_contiguous() && param.is_contiguous(MemoryFormat::channels_last)) {
    return contents.as_strided(param.sizes(), param.strides(), at);
  }
  return contents.narrow(0, at, param.numel()).view(param.sizes());
}

void Reducer::make_buckets(const std::vector<Indices>& buckets) {
  const NoGradGuard no_grad;
  buckets_.clear();
  places_.assign(params_.size(), {});
  for (const Indices& indices : buckets) {
    const Tensor& first = params_[static_cast<std::size_t>(indices.at(0))].second;
    Bucket bucket;
    bucket.params = indices;
    if (is_sparse(static_cast<std::size_t>(indices[0]))) {
      bucket.is_sparse = true;
      places_[static_cast<std::size_t>(indices[0])] = {buckets_.size(), 0};
      buckets_.push_back(std::move(bucket));
      continue;
    }
    bucket.is_lending = !options_.views && first.device().is_cpu() && bytes_of(bucket) >= kLendsFrom;
    bucket.had_gradient.assign(indices.size(), true);
    for (std::size_t at = 0; at < indices.size(); ++at) {
      places_[static_cast<std::size_t>(indices[at])] = {buckets_.size(), at};
    }
    open_bucket(bucket);
    for (std::size_t i = 0; options_.views && i < indices.size(); ++i) {
      const Tensor& param = params_[static_cast<std::size_t>(indices[i])].second;
      if (const Tensor grad = param.grad(); grad.defined()) {
        bucket.views[i].copy_(grad.detach());
        param.set_grad(bucket.views[i]);
      }
    }
    buckets_.push_back(std::move(bucket));
  }
}

/// Gives it memory where it has none.
void Reducer::open_bucket(Bucket& bucket) {
  if (bucket.contents.defined() || bucket.is_sparse) return;
  if (!bucket.lent.expired()) may_lend_ = false;  // gradients stay from step to step: they must not keep all of it
  const Tensor& first = params_[static_cast<std::size_t>(bucket.params.at(0))].second;
  std::int64_t elements = 0;
  for (const std::int64_t index : bucket.params) elements += params_[static_cast<std::size_t>(index)].second.numel();
  bucket.contents = empty({elements}, {.dtype = first.dtype(), .device = first.device()});
  bucket.views.clear();
  std::int64_t at = 0;
  for (const std::int64_t index : bucket.params) {
    const Tensor& param = params_[static_cast<std::size_t>(index)].second;
    bucket.views.push_back(view_for(param, bucket.contents, at));
    at += param.numel();
  }
}

std::int64_t Reducer::bytes_of(const Bucket& bucket) const {
  std::int64_t bytes = 0;
  for (const std::int64_t index : bucket.params) bytes += params_[static_cast<std::size_t>(index)].second.nbytes();
  return bytes;
}

void Reducer::prepare_forward() {
  ++forwards_;
  constexpr std::int64_t kSampled = 10;
  if (forwards_ > kSampled && forwards_ % 100 != 0) return;
  stats_.has_rebuilt_buckets = has_rebuilt_;
  stats_.num_buckets_reduced = reduced_;
  stats_.prev_iteration_grad_ready_order_indices = ready_order_;
  stats_.unused_parameter_size = 0;
  for (const std::int64_t index : unused_)
    stats_.unused_parameter_size += params_[static_cast<std::size_t>(index)].second.nbytes();
  if (!has_rebuilt_ || stats_.rebuilt_bucket_sizes) return;
  stats_.rebuilt_bucket_sizes.emplace();
  for (const Bucket& bucket : buckets_) {
    stats_.rebuilt_bucket_sizes->push_back(bytes_of(bucket));
    stats_.rebuilt_per_bucket_param_indices.push_back(bucket.params);
  }
}

bool Reducer::rebuild_buckets() {
  check_finished();
  if (!may_rebuild() || rebuilt_.empty()) return false;
  std::vector<BucketItem> items;
  for (const std::int64_t index : rebuilt_) {
    const Tensor& param = params_[static_cast<std::size_t>(index)].second;
    items.push_back({param.nbytes(), param.dtype(), param.device(), is_sparse(static_cast<std::size_t>(index))});
  }
  std::vector<Indices> buckets = assign_buckets(items, options_.rebuilding, rebuilt_).buckets;
  if (options_.group->size() > 1) {  // the order of rank 0 is everybody's
    std::string text;
    for (const Indices& bucket : buckets) text += joined(bucket, " ") + ",";
    text = broadcast_object(text, options_.group->ranks()[0], options_.group);
    buckets.clear();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find(',', at);
      Indices indices;
      const char* digits = text.c_str() + at;
      for (char* next = nullptr; digits < text.c_str() + end; digits = next)
        indices.push_back(std::strtoll(digits, &next, 10));
      buckets.push_back(std::move(indices));
      at = end + 1;
    }
  }
  make_buckets(buckets);
  has_rebuilt_ = true;
  rebuilt_.clear();
  return true;
}

void Reducer::check_finished() {
  if (must_finish_) throw_unfinished();
}

void Reducer::throw_unfinished() const {
  std::string text =
      "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that "
      "your module has parameters that were not used in producing loss. ";
  if (options_.static_graph) {
    text =
        "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates "
        "that your training graph has changed in this iteration, e.g., one parameter is used in first iteration, but "
        "then got unused in the second iteration. this is not compatible with static_graph set to True.";
  } else if (options_.find_unused) {
    text +=
        "Since `find_unused_parameters=True` is enabled, this likely  means that not all `forward` outputs participate "
        "in computing loss. You can fix this by ";
  } else {
    text +=
        "You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to "
        "`torch.nn.parallel.DistributedDataParallel`, and by \n";
  }
  if (!options_.static_graph) {
    text +=
        "making sure all `forward` function outputs participate in calculating loss. \nIf you already have done the "
        "above, then the distributed data parallel module wasn't able to locate the output tensors in the return value "
        "of your module's `forward` function. Please include the loss function and the structure of the return value "
        "of `forward` of your module when reporting this issue (e.g. list, dict, iterable).";
  }
  Indices missing;
  std::string names;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    if (ready_[i]) continue;
    missing.push_back(static_cast<std::int64_t>(i));
    names = params_[i].first + (names.empty() ? "" : ", ") + names;
  }
  const std::string rank = std::to_string(options_.group->rank());
  if (is_debugging()) text += "\nParameters which did not receive grad for rank " + rank + ": " + names;
  text += "\nParameter indices which did not receive grad for rank " + rank + ": " + joined(missing, " ");
  if (!is_debugging()) {
    text +=
        "\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to "
        "print out information about which particular parameters did not receive gradient on this rank as part of this "
        "error";
  }
  core::detail::fail(text);
}

void Reducer::prepare_backward(const std::vector<Tensor>& outputs) {
  check_finished();
  ++iterations_;
  expects_hooks_ = true;
  has_marked_unused_ = false;
  next_bucket_ = 0;
  reduced_ = 0;
  ready_.assign(params_.size(), false);
  ready_order_.clear();
  divisor_.reset();
  for (Bucket& bucket : buckets_) {
    bucket.pending = bucket.params.size();
    if (bucket.is_lending) note_gradients(bucket);
  }
  hook_counts_left_ = hook_counts_;
  if (finds_unused() || is_first_of_static()) {
    used_here_.assign(params_.size(), false);
    used_is_summed_ = false;
    find_unused(outputs);
  }
}

void Reducer::find_unused(const std::vector<Tensor>& outputs) {
  unused_.clear();
  awaited_.clear();
  const std::unordered_set<const Node*> seen = nodes_behind(outputs);
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const bool is_used = seen.contains(gradient_edge(params_[i].second).node.get());
    (is_used ? awaited_ : unused_).push_back(static_cast<std::int64_t>(i));
  }
}

void Reducer::on_gradient(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (!expects_hooks_) return;  // gradients are gathered for a later step
  const NoGradGuard no_grad;
  ready_order_.push_back(static_cast<std::int64_t>(index));
  if (finds_unused() || is_first_of_static()) used_here_[index] = true;
  if (is_first_of_static()) return count_first(index);
  if (!std::exchange(has_marked_unused_, true)) {
    if (finds_unused() || options_.static_graph) {
      for (const std::int64_t unused : unused_) mark_ready(static_cast<std::size_t>(unused));
    }
  }
  if (options_.static_graph) {
    if (hook_counts_left_[index] <= 0) {
      core::detail::fail(
          "Your training graph has changed in this iteration, e.g., one parameter is unused in first iteration, but "
          "then got used in the second iteration. this is not compatible with static_graph set to True.");
    }
    if (--hook_counts_left_[index] > 0) return;
  }
  if (may_rebuild()) push_rebuilt(index);
  mark_ready(index);
}

void Reducer::count_first(std::size_t index) {
  ++hook_counts_[index];
  must_finish_ = true;
  ready_[index] = true;
  std::erase(awaited_, static_cast<std::int64_t>(index));
  if (awaited_.empty()) reduce_all_at_once();
}

void Reducer::reduce_all_at_once() {
  start_used_map();
  for (std::size_t i = 0; i < params_.size(); ++i) fill_bucket(i);
  for (std::size_t i = 0; i < buckets_.size(); ++i) start_bucket(i);
  finish();
}

void Reducer::push_rebuilt(std::size_t index) {
  rebuilt_.push_back(static_cast<std::int64_t>(index));
}

void Reducer::mark_ready(std::size_t index) {
  if (ready_[index]) {
    core::detail::fail(
        "Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of "
        "a module parameter outside the `forward` function. Please make sure model parameters are not shared across "
        "multiple concurrent forward-backward passes. or try to use _set_static_graph() as a workaround if this module "
        "graph does not change during training loop.2) Reused parameters in multiple reentrant backward passes. For "
        "example, if you use multiple `checkpoint` functions to wrap the same part of your model, it would result in "
        "the same set of parameters been used by different reentrant backward passes multiple times, and hence marking "
        "a variable ready multiple times. DDP does not support such use cases in default. You can try to use "
        "_set_static_graph() as a workaround if your module graph does not change over iterations.");
  }
  must_finish_ = true;
  ready_[index] = true;
  fill_bucket(index);
  if (--buckets_[places_[index].bucket].pending > 0) return;
  start_ready_buckets();
}

void Reducer::set_hook(CommHook hook) {
  if (hook == nullptr) throw Error(ErrorCode::type, "Communication hook must be callable.");
  if (hook_ != nullptr) {
    core::detail::fail("register_comm_hook or register_builtin_comm_hook can only be called once.");
  }
  hook_ = std::move(hook);
}

double Reducer::divisor() {
  if (hook_ != nullptr) return 1;
  if (divisor_) return *divisor_;
  double ranks = options_.group->size();
  if (divisor_work_) {
    divisor_work_->first.wait();
    ranks = divisor_work_->second.item<double>();
  }
  divisor_ = ranks;
  return ranks;
}

void Reducer::fill_sparse_bucket(Bucket& bucket, const Tensor& grad) {
  if (!grad.defined()) core::detail::fail("Expected sparse gradient to be defined.");
  if (!grad.is_sparse()) core::detail::fail("Expected variable to have sparse gradient.");
  bucket.contents = grad;
  if (const double ranks = divisor(); ranks != 1) divide_by(grad, ranks);
}

void Reducer::fill_bucket(std::size_t index) {
  const Place place = places_[index];
  const Tensor& param = params_[index].second;
  const Tensor grad = param.grad();
  if (buckets_[place.bucket].is_sparse) return fill_sparse_bucket(buckets_[place.bucket], grad);
  open_bucket(buckets_[place.bucket]);
  const Tensor& view = buckets_[place.bucket].views[place.at];
  if (!grad.defined()) {
    view.zero_();
  } else if (grad.storage().id() == view.storage().id()) {
    view.div_(divisor());
  } else {
    if (grad.is_sparse()) {
      core::detail::fail("the gradient of " + quote(params_[index].first) +
                         " is sparse, which is expected of an Embedding or EmbeddingBag with sparse = true alone");
    }
    detail::scaled_copy(view, grad.detach(), 1.0 / divisor());
    if (options_.views) param.set_grad(view);
  }
}

void Reducer::start_ready_buckets() {
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].pending == 0) start_bucket(next_bucket_++);
  if (next_bucket_ < buckets_.size()) return;
  if (finds_unused()) start_used_map();
  if (options_.static_graph && may_rebuild()) {
    for (const std::int64_t unused : unused_) push_rebuilt(static_cast<std::size_t>(unused));
  }
  finish();
}

void Reducer::start_bucket(std::size_t number) {
  ++reduced_;
  if (hook_ != nullptr) return start_hook(number);
  if (options_.group->size() == 1) return;
  Bucket& bucket = buckets_[number];
  bucket.work = all_reduce(
      bucket.contents, {.group = options_.group,
                        .async_op = true,
                        .label = "bucket " + std::to_string(number + 1) + " of " + std::to_string(buckets_.size())});
}

void Reducer::start_hook(std::size_t number) {
  Bucket& bucket = buckets_[number];
  std::vector<Tensor> params;
  for (const std::int64_t index : bucket.params) params.push_back(params_[static_cast<std::size_t>(index)].second);
  GradBucket given(number, buckets_.size(), bucket.contents, bucket.views, std::move(params));
  bucket.given = hook_(given);
}

void Reducer::take_from_hook(Bucket& bucket) const {
  if (!bucket.given) return;
  const Tensor result = std::exchange(bucket.given, std::nullopt)->wait();
  if (bucket.is_sparse) return take_sparse(bucket.contents, result);
  if (!result.defined() || result.dtype() != bucket.contents.dtype() || result.numel() != bucket.contents.numel()) {
    fail_by_hook(result, bucket.contents);
  }
  if (result.raw_data() != bucket.contents.raw_data()) bucket.contents.copy_(result.reshape({result.numel()}));
}

void Reducer::start_used_map() {
  auto* used = used_.mutable_data<std::int32_t>();
  for (std::size_t i = 0; i < used_here_.size(); ++i) used[i] = used_here_[i] ? 1 : 0;
  if (options_.group->size() == 1) return;
  used_sent_ = used_.to(options_.group->own_device());
  used_work_ = all_reduce(used_sent_, {.group = options_.group, .async_op = true, .label = "used parameters"});
}

/// Of a rank that has no batch.
void Reducer::start_map_of_none() {
  used_here_.assign(params_.size(), false);
  start_used_map();
}

void Reducer::finish() {
  expects_hooks_ = false;
  must_finish_ = false;
  for (Bucket& bucket : buckets_) {
    bucket.work.wait();
    take_from_hook(bucket);
    finish_bucket(bucket);
  }
  take_used_map();
}

void Reducer::take_used_map() {
  if (std::exchange(used_is_summed_, true)) return;
  used_work_.wait();
  if (used_sent_.defined() && !used_sent_.is_same(used_)) used_.copy_(used_sent_);
}

bool Reducer::is_unused_everywhere(std::size_t index) {
  if (!finds_unused() && !options_.static_graph) return false;
  if (used_here_[index]) return false;
  take_used_map();
  return used_.data<std::int32_t>()[index] == 0;
}

/// Those that are there before a backward pass may lie in memory that the program lent, and sees by other ways than
/// tensors.
void Reducer::note_gradients(Bucket& bucket) const {
  bucket.had_gradient.assign(bucket.params.size(), false);
  for (std::size_t i = 0; i < bucket.params.size(); ++i) {
    bucket.had_gradient[i] = params_[static_cast<std::size_t>(bucket.params[i])].second.grad().defined();
  }
}

/// The large gradients become parts of the bucket's memory, and the bucket gets other memory for the next step: that
/// saves copying them. Where it could be seen, or a hook may have kept the bucket, they are copied.
void Reducer::lend_bucket(Bucket& bucket) {
  const auto contents = std::make_shared<const Tensor>(std::move(bucket.contents));
  for (std::size_t i = 0; i < bucket.params.size(); ++i) {
    const auto index = static_cast<std::size_t>(bucket.params[i]);
    if (is_unused_everywhere(index)) continue;
    const Tensor& param = params_[index].second;
    const Tensor& view = bucket.views[i];
    const Tensor grad = param.grad();
    if (!grad.defined()) {
      param.set_grad(view.clone());
    } else if (view.nbytes() >= kLendsFrom && !bucket.had_gradient[i] && grad.strides() == view.strides() &&
               detail::is_replaceable(grad)) {
      param.set_grad(detail::lent_part(contents, view));
    } else {
      grad.detach().copy_(view);
    }
  }
  bucket.views.clear();
  bucket.lent = contents;
}

void Reducer::finish_bucket(Bucket& bucket) {
  if (bucket.is_sparse) return;  // the contents are the gradient
  if (bucket.is_lending && may_lend_ && hook_ == nullptr) return lend_bucket(bucket);
  for (std::size_t i = 0; i < bucket.params.size(); ++i) {
    const auto index = static_cast<std::size_t>(bucket.params[i]);
    if (is_unused_everywhere(index)) continue;
    const Tensor& param = params_[index].second;
    const Tensor grad = param.grad();
    if (options_.views) {
      if (!grad.defined()) param.set_grad(bucket.views[i]);
    } else if (!grad.defined()) {
      param.set_grad(bucket.views[i].clone());
    } else {
      grad.detach().copy_(bucket.views[i]);
    }
  }
}

void Reducer::divide_by_result(const Work& work, const Tensor& result) {
  divisor_work_.emplace(work, result);
}

void Reducer::join_backward() {
  const NoGradGuard no_grad;
  const bool is_first = options_.static_graph && iterations_ == 0;
  if (is_first) {  // the other ranks ask for it before their buckets
    ++iterations_;
    start_map_of_none();
  }
  std::vector<Work> works;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    if (bucket.is_sparse) {
      bucket.contents = no_places(params_[static_cast<std::size_t>(bucket.params[0])].second);
    } else {
      open_bucket(bucket);
      bucket.contents.zero_();
    }
    start_bucket(i);
    works.push_back(buckets_[i].work);
  }
  if (finds_unused()) start_map_of_none();  // before hooks go on: the others ask for it when all buckets have begun
  for (const Work& work : works) work.wait();
  for (Bucket& bucket : buckets_) take_from_hook(bucket);
  if (is_first || finds_unused()) used_work_.wait();
  if (is_first || !may_rebuild() || !rebuilt_.empty()) return;  // the first step of a static graph says no order
  for (std::size_t i = 0; i < params_.size(); ++i) push_rebuilt(i);
}

}  // namespace core::distributed
