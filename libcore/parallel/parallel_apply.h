#pragma once
// Running replicas at the same time, one thread each, as torch.nn.parallel.parallel_apply.
// Thread safety: calls from several threads take turns.
// Use: auto outputs = core::parallel_apply(replicas, inputs, devices);  // inputs: one tuple of arguments a replica

#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/module/module.h"

namespace core {

namespace detail {

using RunReplica = void (*)(void* context, std::size_t replica);
/// Calls run(context, i) for every device i at the same time, with the caller's grad mode and that device current.
/// An exception of the first failing replica comes out as "Caught TYPE in replica I on device D." and its text.
void run_replicas(const std::vector<Device>& devices, RunReplica run, void* context);

/// module.forward(args...), through the erased call where the type is not known.
template <class M, class... Args>
requires(!std::is_same_v<M, Module>) auto forward_of(M& module, Args&&... args)
    -> decltype(module.forward(std::forward<Args>(args)...)) {
  return module.forward(std::forward<Args>(args)...);
}
template <std::same_as<Module> M>
Tensor forward_of(M& module, const Tensor& input) {
  return module.call(input);
}

}  // namespace detail

/// What module.forward(args...) gives, as a value.
template <class M, class... Args>
using ForwardResult = std::decay_t<decltype(detail::forward_of(std::declval<M&>(), std::declval<Args>()...))>;

/// Results in the order of the replicas. Devices may repeat.
template <class M, class... Args>
auto parallel_apply(const std::vector<std::shared_ptr<M>>& modules, const std::vector<std::tuple<Args...>>& inputs,
                    const std::vector<Device>& devices) {
  using Result = ForwardResult<M, const Args&...>;
  static_assert(!std::is_void_v<Result>, "the forward of a replicated module returns a value");
  std::vector<std::optional<Result>> results(modules.size());
  auto run = [&](std::size_t i) {
    results[i].emplace(
        std::apply([&](const Args&... args) { return detail::forward_of(*modules[i], args...); }, inputs[i]));
  };
  detail::run_replicas(
      devices, [](void* context, std::size_t i) { (*static_cast<decltype(run)*>(context))(i); }, &run);
  std::vector<Result> values;
  for (auto& result : results) values.push_back(std::move(*result));
  return values;
}

}  // namespace core
