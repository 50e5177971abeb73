#pragma once
// Running replicas at the same time, one thread each, as torch.nn.parallel.parallel_apply.
// Thread safety: calls from several threads take turns.
// Use: auto outputs = core::parallel_apply(replicas, inputs, devices);  // inputs: one tuple of arguments a replica

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/module/module.h"

namespace core {

namespace detail {

using RunReplica = void (*)(void* context, std::size_t replica);
/// Calls run(context, i) for every device i at the same time, with the caller's grad mode and that device current. When
/// all are done, the exception of the first failing replica comes out as "Caught TYPE in replica I on device D." and
/// its text; what other replicas threw is named below it. It is an Error of the same code (OutOfMemoryError where that
/// was thrown), with the original nested inside (std::rethrow_if_nested). The devices' random numbers are then as
/// before.
void run_replicas(const std::vector<Device>& devices, RunReplica run, void* context);
/// "The number of modules 2 is not equal to the number of inputs 1", an assertion.
void check_count(std::size_t modules, std::size_t others, std::string_view what);

/// module(args...), with its hooks; through the erased call where the type is not known.
template <class M, class... Args>
requires(std::is_same_v<M, Module> || requires(M & module, const Args&... args) {
  module.forward(args...);
}) auto call_module(M& module, const Args&... args) {
  if constexpr (std::is_same_v<M, Module>) {
    return module.call(args...);
  } else if constexpr (requires { module(args...); }) {
    return module(args...);
  } else {
    return module.forward(args...);
  }
}

}  // namespace detail

/// What module(args...) gives, as a value.
template <class M, class... Args>
using ForwardResult = decltype(detail::call_module(std::declval<M&>(), std::declval<const Args&>()...));

/// Results in the order of the replicas. Devices may repeat. Error(assertion) when the numbers differ.
template <class M, class... Args>
auto parallel_apply(const std::vector<std::shared_ptr<M>>& modules, const std::vector<std::tuple<Args...>>& inputs,
                    const std::vector<Device>& devices) {
  using Result = ForwardResult<M, Args...>;
  static_assert(!std::is_void_v<Result>, "the forward of a replicated module returns a value");
  detail::check_count(modules.size(), inputs.size(), "inputs");
  detail::check_count(modules.size(), devices.size(), "devices");
  std::vector<std::optional<Result>> results(modules.size());
  auto run = [&](std::size_t i) {
    results[i].emplace(
        std::apply([&](const Args&... args) { return detail::call_module(*modules[i], args...); }, inputs[i]));
  };
  detail::run_replicas(
      devices, [](void* context, std::size_t i) { (*static_cast<decltype(run)*>(context))(i); }, &run);
  std::vector<Result> values;
  for (auto& result : results) values.push_back(std::move(*result));
  return values;
}

/// The same for modules of one tensor.
template <class M>
auto parallel_apply(const std::vector<std::shared_ptr<M>>& modules, const std::vector<Tensor>& inputs,
                    const std::vector<Device>& devices) {
  return parallel_apply(modules, std::vector<std::tuple<Tensor>>(inputs.begin(), inputs.end()), devices);
}

}  // namespace core
