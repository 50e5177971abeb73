#pragma once
// DataParallel: a module that splits its input over several devices, runs a copy of the inner module on each and joins
// the results. Gradients are summed over the copies, in device order, so that a run is reproducible. An ordinary module
// whose only child is named `module`; without CUDA devices it just calls that child.
// Thread safety: one call at a time.
// Use: core::DataParallel model(Net(5, 2)); model.to("cuda:0"); core::Tensor y = model(x);

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/module/module.h"
#include "libcore/parallel/device_id.h"
#include "libcore/parallel/parallel_apply.h"
#include "libcore/parallel/replicate.h"
#include "libcore/parallel/scatter_gather.h"

namespace core {

struct DataParallelOptions {
  std::optional<std::vector<DeviceId>> device_ids = {};  ///< all visible devices
  std::optional<DeviceId> output_device = {};            ///< the first of them
  std::int64_t dim = 0;                                  ///< the batch dimension
};

namespace detail {

/// What does not depend on the module's type.
struct ParallelPlan {
  std::vector<Device> devices;  ///< empty without CUDA: plain calls
  Device output;
  std::int64_t dim = 0;
};
/// Errors: "no available devices were found", those of device_id.h, and a device that is given twice.
ParallelPlan make_parallel_plan(const DataParallelOptions& options);
/// Warns when the devices differ much in memory, or in multiprocessors.
void check_balance(const std::vector<Device>& devices);
/// "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: cpu".
void check_on_first_device(Module& module, const ParallelPlan& plan);

/// How an argument is kept: any tensor as a Tensor, everything else by value.
template <class T>
using KeptArgument = std::conditional_t<std::is_base_of_v<Tensor, T>, Tensor, std::decay_t<const T&>>;

/// One forward over the plan's devices.
template <class M, class... Args>
ForwardResult<M, Args...> run_parallel_forward(M& module, const ParallelPlan& plan, ReplicaCache& cache,
                                               const std::tuple<Args...>& args) {
  auto call = [&](const std::tuple<Args...>& shard) {
    return std::apply([&](const Args&... arg) { return call_module(module, arg...); }, shard);
  };
  if (plan.devices.empty()) return call(args);
  check_on_first_device(module, plan);
  std::vector<std::tuple<Args...>> shards;
  if constexpr (sizeof...(Args) == 0) {
    shards.emplace_back();
  } else {
    shards = scatter_values(args, plan.devices, plan.dim);
  }
  if (plan.devices.size() == 1) return call(shards.front());
  std::vector<Device> used(plan.devices.begin(), plan.devices.begin() + static_cast<std::ptrdiff_t>(shards.size()));
  std::vector<std::shared_ptr<M>> replicas;
  for (auto& replica : cache.replicate(module, used, false)) {
    replicas.push_back(std::static_pointer_cast<M>(std::move(replica)));
  }
  return gather_values(parallel_apply(replicas, shards, used), plan.output, plan.dim);
}

}  // namespace detail

template <class M>
class DataParallel : public ModuleOf<DataParallel<M>> {
 public:
  /// Shares the module. With exactly one device the module is moved there at once.
  explicit DataParallel(std::shared_ptr<M> module, const DataParallelOptions& options = {})
      : module_(std::move(module)),
        plan_(detail::make_parallel_plan(options)),
        cache_(std::make_shared<detail::ReplicaCache>()) {
    detail::check_balance(plan_.devices);
    if (plan_.devices.size() == 1) static_cast<Module&>(*module_).to(plan_.devices[0]);
  }
  /// Refers to a module that the caller keeps: both stay one object.
  explicit DataParallel(M& module, const DataParallelOptions& options = {})
      : DataParallel(std::shared_ptr<M>(std::shared_ptr<void>(), &module), options) {}
  /// Owns the module.
  explicit DataParallel(M&& module, const DataParallelOptions& options = {}) requires(!std::is_same_v<M, Module>)
      : DataParallel(std::make_shared<M>(std::move(module)), options) {}

  void members(Members& m) override { m.child("module", module_); }

  /// Any arguments that the module's forward takes; tensors in them are split along `dim` (containers.h). Without
  /// devices, and in a replica of another DataParallel, a plain call. A replica's exception comes out when all replicas
  /// are done (parallel_apply.h); parameters, gradients and random numbers are then as before.
  template <class... Args>
  auto forward(const Args&... args) -> ForwardResult<M, detail::KeptArgument<Args>...> {
    static const detail::ParallelPlan plain;
    return detail::run_parallel_forward(*module_, this->is_replica() ? plain : plan_, *cache_,
                                        std::tuple<detail::KeptArgument<Args>...>(args...));
  }

  M& module() { return *module_; }
  const M& module() const { return *module_; }
  const std::vector<Device>& device_ids() const { return plan_.devices; }
  Device output_device() const { return plan_.output; }

 private:
  std::shared_ptr<M> module_;
  detail::ParallelPlan plan_;
  std::shared_ptr<detail::ReplicaCache> cache_;
};

template <class M>
DataParallel(std::shared_ptr<M>, DataParallelOptions = {}) -> DataParallel<M>;

/// Wraps `module` even when it is a DataParallel already (keys then begin with module.module.), where the constructor
/// would copy. Refers to an lvalue, owns an rvalue.
template <class M>
auto wrap_data_parallel(M&& module, const DataParallelOptions& options = {}) {
  return DataParallel<std::remove_cvref_t<M>>(std::forward<M>(module), options);
}

/// One parallel forward without a wrapper, over the elements of `args`. Without CUDA devices a plain call. No check of
/// the devices' balance; a single device must hold the module already.
template <class M, class... Args>
auto data_parallel(M& module, const std::tuple<Args...>& args, const DataParallelOptions& options = {}) {
  detail::ReplicaCache cache;
  return detail::run_parallel_forward(module, detail::make_parallel_plan(options), cache, args);
}
/// The same for one argument that is no tuple.
template <class M, class Arg>
auto data_parallel(M& module, const Arg& input, const DataParallelOptions& options = {}) {
  return data_parallel(module, std::tuple<detail::KeptArgument<Arg>>(input), options);
}
/// The same for a forward without arguments: runs on the first device.
template <class M>
auto data_parallel(M& module, std::nullopt_t, const DataParallelOptions& options = {}) {
  return data_parallel(module, std::tuple<>(), options);
}

}  // namespace core
