#include "libckpt/analyze/plan.h"

#include <algorithm>
#include <numeric>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr int kMostDevices = 4096;
// Far above any machine; what is made of it (states, copies, sums over devices) stays within 64 bits.
constexpr std::uint64_t kMostBytes = 1ULL << 46;

std::uint64_t bytes_of(core::DType dtype, const core::Shape& shape, const std::string& name) {
  const std::optional<std::uint64_t> count = core::try_numel(shape.span());
  const std::optional<std::uint64_t> bytes = count ? core::byte_size(dtype, *count) : std::nullopt;
  if (!bytes || *bytes > kMostBytes) {
    throw Error(ErrorCode::refused, core::quote(name) + " of shape " + core::to_list(shape) + " as " +
                                        std::string(core::name(dtype)) + " is larger than any machine's memory");
  }
  return *bytes;
}

bool is_trainable(const PlanTensor& tensor) {
  return tensor.parameter && !tensor.packed && (core::is_floating(tensor.dtype) || core::is_complex(tensor.dtype));
}

/// The tensors as they are once the model has its type.
std::vector<PlanTensor> in_type(std::vector<PlanTensor> tensors, std::optional<core::DType> dtype) {
  if (!dtype) return tensors;
  for (PlanTensor& tensor : tensors) {
    if (!tensor.packed && !core::is_floating(tensor.dtype)) continue;
    tensor.packed.reset();
    tensor.dtype = *dtype;
  }
  return tensors;
}

void check(const PlanOptions& options) {
  if (options.devices < 0 || options.devices > kMostDevices) {
    throw Error(ErrorCode::usage, std::to_string(options.devices) + " devices: from 0 (the CPU alone) to " +
                                      core::format_count(kMostDevices));
  }
  auto is_half = [](core::DType dtype) { return dtype == core::DType::f16 || dtype == core::DType::bf16; };
  if (options.dtype && !core::is_floating(*options.dtype)) {
    throw Error(ErrorCode::usage, "a model cannot be trained in " + std::string(core::name(*options.dtype)) +
                                      "; take a floating type such as bfloat16");
  }
  if (options.autocast && !is_half(*options.autocast)) {
    throw Error(ErrorCode::usage,
                "autocast computes in float16 or bfloat16, not in " + std::string(core::name(*options.autocast)));
  }
}

/// Numbers of the parameters that each rank updates, as ZeroRedundancyOptimizer deals them: the largest first, each to
/// the rank that has least so far.
std::vector<std::size_t> owners(const std::vector<std::uint64_t>& counts, std::size_t ranks) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  std::vector<std::uint64_t> sizes(ranks, 0);
  std::vector<std::size_t> owner(counts.size(), 0);
  for (std::size_t index : order) {
    const auto rank = static_cast<std::size_t>(std::min_element(sizes.begin(), sizes.end()) - sizes.begin());
    owner[index] = rank;
    sizes[rank] += counts[index];
  }
  return owner;
}

class Planner {
 public:
  Planner(const std::vector<PlanTensor>& tensors, const PlanOptions& options)
      : options_(options), tensors_(in_type(tensors, options.dtype)) {
    for (int i = 0; i < options.devices; ++i) plan_.places.push_back("cuda:" + std::to_string(i));
    plan_.places.emplace_back("cpu");
    host_ = plan_.places.size() - 1;
    devices_ = std::max<std::size_t>(1, host_);
    for (std::size_t i = 0; i < devices_; ++i) all_.push_back(i);
    first_ = {0};
    rest_.assign(all_.begin() + 1, all_.end());
  }

  MemoryPlan run() {
    add_weights();
    if (!options_.optimizer.empty()) {
      add_gradients();
      add_state();
      add_step();
    }
    if (options_.autocast && !options_.pass) add_autocast();
    if (options_.pass) add_pass(*options_.pass);
    add("tensors of the file", "", PlanPhase::loading, options_.loaded_bytes, {host_});
    std::erase_if(plan_.parts, [](const PlanPart& part) {
      return std::all_of(part.bytes.begin(), part.bytes.end(), [](std::uint64_t b) { return b == 0; });
    });
    sum();
    return std::move(plan_);
  }

 private:
  using Places = std::vector<std::size_t>;

  bool copies_every_step() const { return devices_ > 1 && options_.parallel == Parallel::data_parallel; }
  bool has_processes() const { return devices_ > 1 && options_.parallel != Parallel::data_parallel; }

  void add(const std::string& what, const std::string& dtype, PlanPhase phase, std::uint64_t bytes,
           const Places& places) {
    auto same = [&](const PlanPart& p) { return p.what == what && p.dtype == dtype && p.phase == phase; };
    auto found = std::find_if(plan_.parts.begin(), plan_.parts.end(), same);
    if (found == plan_.parts.end()) {
      plan_.parts.push_back({what, dtype, phase, std::vector<std::uint64_t>(plan_.places.size(), 0)});
      found = plan_.parts.end() - 1;
    }
    for (std::size_t place : places) found->bytes[place] += bytes;
  }

  void add_weights() {
    std::uint64_t all = 0;
    for (const PlanTensor& tensor : tensors_) {
      const std::uint64_t bytes = tensor.packed ? *tensor.packed : bytes_of(tensor.dtype, tensor.shape, tensor.name);
      all += bytes;
      if (all > kMostBytes)
        throw Error(ErrorCode::refused, "the tensors together are larger than any machine's memory");
      const std::uint64_t count = core::try_numel(tensor.shape.span()).value_or(0);
      (is_trainable(tensor) ? plan_.parameters : plan_.untrained) += count;
      plan_.packed += tensor.packed ? 1 : 0;
      ++plan_.tensors;
      const std::string dtype = tensor.packed ? tensor.packed_type : std::string(core::name(tensor.dtype));
      const std::string what = tensor.parameter ? "weights" : "buffers";
      add(what, dtype, PlanPhase::always, bytes, copies_every_step() ? first_ : all_);
      if (copies_every_step()) add("copy of " + what, dtype, PlanPhase::pass, bytes, rest_);
    }
  }

  void add_gradients() {
    for (const PlanTensor& tensor : tensors_) {
      if (!is_trainable(tensor)) continue;
      const std::uint64_t bytes = bytes_of(tensor.dtype, tensor.shape, tensor.name);
      const std::string dtype(core::name(tensor.dtype));
      add("gradients", dtype, PlanPhase::always, bytes, copies_every_step() ? first_ : all_);
      if (copies_every_step()) add("gradients of each copy", dtype, PlanPhase::pass, bytes, all_);
      if (has_processes()) add("buckets of gradients", dtype, PlanPhase::always, bytes, all_);
    }
  }

  void add_state() {
    std::vector<const PlanTensor*> trained;
    std::vector<std::uint64_t> counts;
    for (const PlanTensor& tensor : tensors_) {
      if (!is_trainable(tensor)) continue;
      trained.push_back(&tensor);
      counts.push_back(core::try_numel(tensor.shape.span()).value_or(0));
    }
    const bool shares = has_processes() && options_.parallel == Parallel::zero;
    const std::vector<std::size_t> owner = shares ? owners(counts, devices_) : std::vector<std::size_t>();
    for (std::size_t i = 0; i < trained.size(); ++i) {
      Places places = has_processes() ? all_ : first_;
      if (shares) places = {owner[i]};
      for (const StateSlot& slot : optimizer_state_of(options_.optimizer, *trained[i])) {
        // Of each process the counters lie on the host.
        const Places hosts(places.size(), host_);
        add(slot.name, std::string(core::name(slot.dtype)), PlanPhase::always,
            bytes_of(slot.dtype, slot.shape, trained[i]->name), slot.on_host ? hosts : places);
        if (!slot.on_host) updated_ = true;
      }
      state_places_.push_back(places);
    }
    trained_ = std::move(trained);
  }

  /// Of the default step the list of results in between is as large as the parameters that are updated.
  void add_step() {
    if (!options_.foreach_step || !updated_ || options_.devices == 0) return;
    for (std::size_t i = 0; i < trained_.size(); ++i) {
      const PlanTensor& tensor = *trained_[i];
      add("results in between", std::string(core::name(tensor.dtype)), PlanPhase::step,
          bytes_of(tensor.dtype, tensor.shape, tensor.name), state_places_[i]);
    }
  }

  void add_autocast() {
    for (const PlanTensor& tensor : tensors_) {
      if (!is_trainable(tensor) || tensor.dtype != core::DType::f32 || tensor.shape.size() < 2) continue;
      add("copies that autocast makes", std::string(core::name(*options_.autocast)), PlanPhase::pass,
          bytes_of(*options_.autocast, tensor.shape, tensor.name), all_);
    }
  }

  void add_pass(const PlanPass& pass) {
    const PlanPhase phase = options_.optimizer.empty() ? PlanPhase::forward : PlanPhase::pass;
    add("activations", "", phase, pass.kept, all_);
    add("results in between", "", phase, pass.between, all_);
  }

  void sum() {
    const std::size_t places = plan_.places.size();
    plan_.lasting.assign(places, 0);
    plan_.most.assign(places, 0);
    for (std::size_t place = 0; place < places; ++place) {
      std::uint64_t phases[5] = {};
      for (const PlanPart& part : plan_.parts) phases[static_cast<std::size_t>(part.phase)] += part.bytes[place];
      plan_.lasting[place] = phases[0];
      plan_.most[place] = phases[0] + *std::max_element(phases + 1, phases + 5);
    }
  }

  const PlanOptions& options_;
  std::vector<PlanTensor> tensors_;
  MemoryPlan plan_;
  std::size_t host_ = 0;
  std::size_t devices_ = 1;
  Places all_, first_, rest_;
  std::vector<const PlanTensor*> trained_;
  std::vector<Places> state_places_;
  bool updated_ = false;
};

}  // namespace

std::string_view name(Parallel parallel) {
  constexpr std::string_view kNames[] = {"DataParallel", "DistributedDataParallel",
                                         "DistributedDataParallel and ZeroRedundancyOptimizer"};
  return kNames[static_cast<std::size_t>(parallel)];
}

std::string_view name(PlanPhase phase) {
  constexpr std::string_view kNames[] = {"always", "while loading", "forward and backward", "in step()", "forward"};
  return kNames[static_cast<std::size_t>(phase)];
}

MemoryPlan plan_memory(const std::vector<PlanTensor>& tensors, const PlanOptions& options) {
  check(options);
  return Planner(tensors, options).run();
}

}  // namespace ckpt
