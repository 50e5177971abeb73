#pragma once
// DistributedDataParallel: a module that is trained by several processes at once, each with its part of the batch. All
// begin with rank 0's parameters and buffers; during backward gradients are averaged over the ranks, so that every
// optimizer makes the same step. An ordinary module whose only child is named `module`. As
// torch.nn.parallel.DistributedDataParallel. Thread safety: one step at a time. What goes wrong on the way is thrown by
// the call that waits: forward or backward. Use: core::distributed::DistributedDataParallel model(net); loss(model(x),
// y).backward(); optimizer.step();

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/dist/comm_hooks.h"
#include "libcore/dist/process_group.h"
#include "libcore/dist/reducer.h"
#include "libcore/module/module.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/parallel/device_id.h"

namespace core::distributed {

struct DistributedDataParallelOptions {
  std::optional<std::vector<DeviceId>> device_ids = {};  ///< one device, or none for a module on the CPU
  std::optional<DeviceId> output_device = {};
  Group process_group = {};                     ///< the default group
  std::optional<double> bucket_cap_mb = {};     ///< 25, and 1 for the first bucket to be full
  std::vector<double> bucket_cap_mb_list = {};  ///< one limit a bucket
  bool find_unused_parameters = false;          ///< some parameters get no gradient in some steps
  bool gradient_as_bucket_view = false;         ///< saves the memory of one set of gradients
  bool static_graph = false;                    ///< every step uses the same parameters
  bool forward_sync_buffers = true;             ///< rank 0's buffers go to all before each forward
  bool init_sync = true;                        ///< and its whole state at the start
};

struct JoinOptions {
  bool divide_by_initial_world_size = true;  ///< false: by the ranks that still have data
  bool enable = true;
  bool throw_on_early_termination = false;  ///< all ranks throw when the first runs out of data
};

namespace detail {

/// What does not depend on the module's type.
class ParallelCore {
 public:
  /// Errors: PyTorch's texts for options and modules that do not fit, and for ranks whose models differ.
  ParallelCore(Module& module, const DistributedDataParallelOptions& options);

  void before_forward();
  void after_forward(const std::vector<Tensor>& outputs);
  bool wants_outputs() const;

  Reducer& reducer() { return *reducer_; }
  std::int64_t bucket_bytes_cap() const { return bucket_bytes_cap_; }
  bool& require_sync() { return require_sync_; }
  void begin_join(const JoinOptions& options);
  /// What a rank without data does until the others have none.
  void end_join();
  void leave_join();

 private:
  void check(const DistributedDataParallelOptions& options) const;
  void compare_ranks() const;
  void find_sparse();
  void make_reducer(const DistributedDataParallelOptions& options);
  void sync_buffers();
  void send_from(const std::vector<Tensor>& tensors, int source) const;
  int common_rank(bool is_candidate) const;
  void notify_join();
  bool any_rank_syncs(bool is_joined) const;
  void shadow_step();
  Tensor summed(double value) const;

  Module* module_;
  Group group_;
  std::vector<std::pair<std::string, Tensor>> params_;
  std::vector<bool> sparse_;  ///< of each: an embedding makes its gradient sparse
  bool sync_buffers_;
  bool finds_unused_;
  bool static_graph_;
  std::int64_t bucket_bytes_cap_ = 0;
  std::unique_ptr<Reducer> reducer_;
  bool require_sync_ = true;
  bool require_buffers_ = true;
  std::optional<JoinOptions> joining_;
  std::int64_t steps_ = 0;
};

}  // namespace detail

template <class M>
class DistributedDataParallel : public ModuleOf<DistributedDataParallel<M>> {
 public:
  using Options = DistributedDataParallelOptions;

  explicit DistributedDataParallel(std::shared_ptr<M> module, const Options& options = {})
      : module_(std::move(module)), core_(std::make_shared<detail::ParallelCore>(*module_, options)) {}
  /// Refers to a module that the caller keeps: both stay one object.
  explicit DistributedDataParallel(M& module, const Options& options = {})
      : DistributedDataParallel(std::shared_ptr<M>(std::shared_ptr<void>(), &module), options) {}
  /// Owns the module.
  explicit DistributedDataParallel(M&& module, const Options& options = {}) requires(!std::is_same_v<M, Module>)
      : DistributedDataParallel(std::make_shared<M>(std::move(module)), options) {}

  void members(Members& m) override { m.child("module", module_); }

  /// Any arguments that the module's forward takes.
  template <class... Args>
  auto forward(const Args&... args) -> ForwardResult<M, core::detail::KeptArgument<Args>...> {
    core_->before_forward();
    auto result = core::detail::call_module(*module_, args...);
    std::vector<Tensor> outputs;
    if (core_->wants_outputs()) {
      map_tensors(result, [&](const Tensor& t) {
        outputs.push_back(t);
        return t;
      });
    }
    core_->after_forward(outputs);
    return result;
  }

  M& module() { return *module_; }
  const M& module() const { return *module_; }
  const ReducerStats& stats() const { return core_->reducer().stats(); }
  std::int64_t bucket_bytes_cap() const { return core_->bucket_bytes_cap(); }

  /// From the next backward on, what the hook makes of a bucket of gradients is what every parameter gets
  /// (comm_hooks.h). Errors: "register_comm_hook or register_builtin_comm_hook can only be called once."
  void register_comm_hook(CommHook hook) { core_->reducer().set_hook(std::move(hook)); }

  /// While it lives, backward gathers gradients in this process; the first backward of a forward outside sums them.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(std::shared_ptr<detail::ParallelCore> core)
        : core_(std::move(core)), before_(std::exchange(core_->require_sync(), false)) {}
    ~NoSync() { core_->require_sync() = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    std::shared_ptr<detail::ParallelCore> core_;
    bool before_;
  };
  NoSync no_sync() { return NoSync(core_); }

  /// Runs a training loop of which ranks may have different numbers of steps: one that is done takes part in the
  /// others' sums with nothing, until all are done; then all get the state of the last. Errors: "Rank 0 exhausted all
  /// inputs.", "Detected at least one rank that exhausted inputs. Throwing across all ranks.".
  template <class Loop>
  void join(Loop loop, const JoinOptions& options = {}) {
    if (!options.enable) return loop();
    core_->begin_join(options);
    const Joining joining{*core_};
    loop();
    core_->end_join();
  }

 private:
  struct Joining {
    detail::ParallelCore& core;
    ~Joining() { core.leave_join(); }
  };
  std::shared_ptr<M> module_;
  std::shared_ptr<detail::ParallelCore> core_;
};

template <class M>
DistributedDataParallel(std::shared_ptr<M>, DistributedDataParallelOptions = {}) -> DistributedDataParallel<M>;

}  // namespace core::distributed
