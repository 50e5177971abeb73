#include "libcore/dist/distributed_data_parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>

#include "libcore/base/fail.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/flat_block.h"
#include "libcore/dist/init.h"
#include "libcore/dist/state_check.h"
#include "libcore/module/embedding.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/uninitialized.h"

namespace core::distributed::detail {
namespace {

using core::detail::fail;
using core::detail::fail_value;

constexpr double kMiB = 1 << 20;
constexpr double kDefaultCap = 25;
constexpr std::int64_t kFirstCap = std::int64_t{1} << 20;
constexpr std::int64_t kBroadcastBytes = std::int64_t{250} << 20;

std::string device_list(const std::optional<std::vector<DeviceId>>& ids) {
  if (!ids) return "None";
  std::string text = "[";
  for (std::size_t i = 0; i < ids->size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string((*ids)[i].device().index());
  return text + "]";
}

/// Ends the construction on all ranks with this rank's error.
[[noreturn]] void fail_for_all(const std::string& text) {
  report_failure("RuntimeError: " + text);
  fail(text);
}

}  // namespace

ParallelCore::ParallelCore(Module& module, const DistributedDataParallelOptions& options)
    : module_(&module),
      group_(options.process_group ? options.process_group : default_group()),
      sync_buffers_(options.forward_sync_buffers),
      finds_unused_(options.find_unused_parameters),
      static_graph_(options.static_graph) {
  check(options);
  if (options.device_ids && options.device_ids->size() == 1) module.to((*options.device_ids)[0].device());
  for (const auto& [name, param] : module.named_parameters()) {
    if (param.requires_grad()) params_.emplace_back(name, param);
  }
  find_sparse();
  if (options.init_sync) {
    compare_ranks();
    std::vector<Tensor> state;
    for (const auto& [name, param] : module.named_parameters()) state.push_back(param);
    for (const auto& [name, buffer] : module.named_buffers()) state.push_back(buffer);
    send_from(state, group_->ranks()[0]);
  }
  make_reducer(options);
}

void ParallelCore::check(const DistributedDataParallelOptions& options) const {
  std::vector<Device> devices;
  bool any_trained = false;
  for (const auto& [name, param] : module_->named_parameters()) {
    if (is_uninitialized(param)) {
      fail(
          "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy forward "
          "pass to correctly initialize the modules");
    }
    any_trained = any_trained || param.requires_grad();
    if (std::find(devices.begin(), devices.end(), param.device()) == devices.end()) devices.push_back(param.device());
  }
  if (!any_trained) {
    fail("DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.");
  }
  if (options.device_ids && options.device_ids->size() > 1) {
    fail_value("device_ids can only be None or contain a single element.");
  }
  const bool names_device = (options.device_ids && !options.device_ids->empty()) || options.output_device;
  if (!names_device || (devices.size() == 1 && devices[0].is_cuda())) return;
  std::string list;
  for (const Device& device : devices) {
    list += (list.empty() ? "" : ", ") + ("device(type='" + std::string(device.is_cpu() ? "cpu" : "cuda") + "'") +
            (device.is_cpu() ? "" : ", index=" + std::to_string(device.index())) + ")";
  }
  const std::string output =
      options.output_device ? std::to_string(options.output_device->device().index()) : std::string("None");
  fail_value(
      "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU "
      "modules or CPU modules, but got device_ids " +
      device_list(options.device_ids) + ", output_device " + output + ", and module parameters {" + list + "}.");
}

void ParallelCore::compare_ranks() const {
  if (group_->size() == 1) return;
  std::string own;
  for (const auto& [name, param] : params_)
    own += std::string(core::name(param.dtype())) + " " + to_list(param.sizes()) + "\n";
  const std::vector<std::string> all = all_gather_object(own, group_);
  const auto me = static_cast<std::size_t>(group_->rank());
  const auto count = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  for (std::size_t other = 0; other < all.size(); ++other) {
    if (count(all[other]) == count(own)) continue;
    fail("DDP expects same model across all ranks, but Rank " + std::to_string(me) + " has " +
         std::to_string(count(own)) + " params, while rank " + std::to_string(other) + " has inconsistent " +
         std::to_string(count(all[other])) + " params.");
  }
  std::istringstream first(all[0]);
  std::string line;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    std::getline(first, line);
    const Tensor& param = params_[i].second;
    const std::size_t space = line.find(' ');
    if (line.substr(space + 1) != to_list(param.sizes())) {
      fail_for_all("[" + std::to_string(me) + "]: params[" + std::to_string(i) + "] in this process with sizes " +
                   to_list(param.sizes()) + " appears not to match sizes of the same param in process 0.");
    }
    if (line.substr(0, space) != core::name(param.dtype())) {
      fail_for_all("[" + std::to_string(me) + "]: params[" + std::to_string(i) + "] in this process with dtype " +
                   std::string(core::name(param.dtype())) + " appears not to match the dtype " + line.substr(0, space) +
                   " of the same param in process 0.");
    }
  }
}

void ParallelCore::find_sparse() {
  sparse_.assign(params_.size(), false);
  for (const auto& [name, module] : module_->named_modules()) {
    const auto* embedding = dynamic_cast<const Embedding*>(module);
    const auto* bag = dynamic_cast<const EmbeddingBag*>(module);
    const bool is_sparse = (embedding != nullptr && embedding->sparse) || (bag != nullptr && bag->options.sparse);
    if (!is_sparse) continue;
    const Tensor& weight = embedding != nullptr ? embedding->weight : bag->weight;
    for (std::size_t i = 0; i < params_.size(); ++i) sparse_[i] = sparse_[i] || params_[i].second.is_same(weight);
  }
}

void ParallelCore::make_reducer(const DistributedDataParallelOptions& options) {
  std::vector<std::int64_t> caps;
  for (const double mb : options.bucket_cap_mb_list) caps.push_back(static_cast<std::int64_t>(mb * kMiB));
  const std::int64_t cap = static_cast<std::int64_t>(options.bucket_cap_mb.value_or(kDefaultCap) * kMiB);
  bucket_bytes_cap_ = caps.empty() ? cap : *std::max_element(caps.begin(), caps.end());
  std::vector<std::int64_t> rebuilding = caps;
  if (caps.empty()) rebuilding = {options.bucket_cap_mb ? cap : kFirstCap, cap};
  std::vector<std::int64_t> first = caps;
  if (caps.empty() && (static_graph_ || !finds_unused_)) {
    first = {std::numeric_limits<std::int64_t>::max()};
  } else if (caps.empty()) {
    first = options.bucket_cap_mb ? std::vector<std::int64_t>{cap} : rebuilding;
  }
  std::vector<BucketItem> items;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Tensor& param = params_[i].second;
    items.push_back({param.nbytes(), param.dtype(), param.device(), sparse_[i]});
  }
  std::vector<std::vector<std::int64_t>> buckets = assign_buckets(items, first).buckets;
  std::reverse(buckets.begin(), buckets.end());
  reducer_ = std::make_unique<Reducer>(params_, std::move(buckets),
                                       ReducerOptions{.group = group_,
                                                      .find_unused = finds_unused_,
                                                      .static_graph = static_graph_,
                                                      .views = options.gradient_as_bucket_view,
                                                      .sparse = sparse_,
                                                      .rebuilding = std::move(rebuilding)});
}

void ParallelCore::send_from(const std::vector<Tensor>& tensors, int source) const {
  if (group_->size() == 1) return;
  const NoGradGuard no_grad;
  std::vector<BucketItem> items;
  for (const Tensor& tensor : tensors) items.push_back({tensor.nbytes(), tensor.dtype(), tensor.device()});
  if (items.empty()) return;
  std::vector<std::pair<Work, std::function<void()>>> all;
  for (const std::vector<std::int64_t>& bucket : assign_buckets(items, {kBroadcastBytes}).buckets) {
    std::vector<Tensor> parts;
    std::int64_t elements = 0;
    for (const std::int64_t i : bucket) parts.push_back(tensors[static_cast<std::size_t>(i)].detach());
    for (const Tensor& part : parts) elements += part.numel();
    const Tensor flat = empty({elements}, {.dtype = parts[0].dtype(), .device = parts[0].device()});
    put_together(flat, parts);
    Work work = broadcast(flat, source, {.group = group_, .async_op = true, .label = "parameters and buffers"});
    const bool is_source = source == get_rank();
    all.emplace_back(work, [flat, parts, is_source] {
      if (!is_source) take_apart(flat, parts);
    });
  }
  for (auto& [work, give_back] : all) {
    work.wait();
    give_back();
  }
}

bool ParallelCore::wants_outputs() const {
  return finds_unused_ || static_graph_;
}

void ParallelCore::before_forward() {
  const bool syncs = is_grad_enabled() && require_sync_;
  if (syncs) {
    check_equal_state(*module_, group_, steps_++);
    reducer_->prepare_forward();
  }
  if (joining_) notify_join();
  if (is_grad_enabled()) reducer_->rebuild_buckets();
  if (sync_buffers_ && require_buffers_) sync_buffers();
  if (joining_) any_rank_syncs(false);
}

void ParallelCore::after_forward(const std::vector<Tensor>& outputs) {
  require_buffers_ = is_grad_enabled() && require_sync_;
  if (require_buffers_) reducer_->prepare_backward(outputs);
}

void ParallelCore::sync_buffers() {
  std::vector<Tensor> buffers;
  for (const auto& [name, buffer] : module_->named_buffers()) buffers.push_back(buffer);
  if (buffers.empty()) return;
  send_from(buffers, joining_ ? common_rank(true) : group_->ranks()[0]);
}

Tensor ParallelCore::summed(double value) const {
  const NoGradGuard no_grad;
  const Tensor number = full({1}, value, {.device = group_->own_device()});
  all_reduce(number, {.group = group_, .label = "join"});
  return number;
}

/// The last of the ranks that are candidates.
int ParallelCore::common_rank(bool is_candidate) const {
  const NoGradGuard no_grad;
  const Tensor rank = full({1}, static_cast<std::int64_t>(is_candidate ? group_->rank() : -1),
                           {.dtype = DType::i64, .device = group_->own_device()});
  all_reduce(rank, {.op = ReduceOp::max, .group = group_, .label = "join"});
  const auto found = rank.item<std::int64_t>();
  if (found < 0)
    fail_value(
        "BUG! Expected rank_cond to be true for at least one process. This indicates a bug in PyTorch, please report "
        "an issue.");
  return group_->ranks()[static_cast<std::size_t>(found)];
}

void ParallelCore::begin_join(const JoinOptions& options) {
  joining_ = options;
  reducer_->divide_by_all();
}

void ParallelCore::notify_join() {
  const NoGradGuard no_grad;
  const Tensor ones = full({1}, 1.0, {.device = group_->own_device()});
  const Work work = all_reduce(ones, {.group = group_, .async_op = true, .label = "join"});
  if (joining_->throw_on_early_termination && summed(0).item<double>() != 0) {
    fail("Detected at least one rank that exhausted inputs. Throwing across all ranks.");
  }
  if (!joining_->divide_by_initial_world_size) reducer_->divide_by_result(work, ones);
}

bool ParallelCore::any_rank_syncs(bool is_joined) const {
  return summed(!is_joined && require_sync_ ? 1 : 0).item<double>() != 0;
}

void ParallelCore::shadow_step() {
  reducer_->rebuild_buckets();
  if (sync_buffers_ && require_buffers_ && !module_->named_buffers().empty()) {
    std::vector<Tensor> buffers;
    for (const auto& [name, buffer] : module_->named_buffers()) buffers.push_back(buffer);
    send_from(buffers, common_rank(false));
  }
  require_buffers_ = any_rank_syncs(true);
  if (require_buffers_) reducer_->join_backward();
}

void ParallelCore::end_join() {
  bool is_last = true;
  while (true) {
    const auto active = summed(0).item<double>();
    if (active == 0) break;
    if (joining_->throw_on_early_termination) {
      summed(1);
      fail("Rank " + std::to_string(group_->rank()) + " exhausted all inputs.");
    }
    is_last = false;
    shadow_step();
  }
  const int source = common_rank(is_last);
  std::vector<Tensor> state;
  for (const auto& [name, param] : module_->named_parameters()) state.push_back(param);
  for (const auto& [name, buffer] : module_->named_buffers()) state.push_back(buffer);
  send_from(state, source);
}

void ParallelCore::leave_join() {
  joining_.reset();
  reducer_->divide_by_all();
}

}  // namespace core::distributed::detail
