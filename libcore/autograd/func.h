#pragma once
// Functions of functions, as torch.func: derivatives as functions that can be differentiated again, and functions of
// one sample run over a batch. functional_call() and stack_module_state() are in module/functional_call.h.
//
// The functions given may have any number of arguments: tensors, vectors and tuples of tensors, NamedTensors of a
// module; a gradient has the form of its argument. Which arguments count is said at compile time: grad<1>(f), grad<0,
// 2>(f), which gives a tuple; the first where nothing is said. Results have history where an argument, or a tensor that
// the function uses, asks for gradients, so that grad(grad(f)) and backward() through them work; else none.
//
// vmap() runs its function once, on the first sample, and each operation on all samples too, by its rule
// (batch_rules.h); also within grad() and its kin, and one vmap() in another. Where an operation has no rule, item() is
// called, random numbers are drawn or a tensor from outside is written into, it begins again and runs the function once
// for each sample: so branches on values, which PyTorch refuses there, work. A function that counts its calls sees
// this. What it computes in threads of its own counts as the same for all samples. Random numbers: PyTorch's three
// modes.
//
// Thread safety: as core::grad. Cost: vmap one sample more than the batch; jacrev one backward pass an element of the
// result, jacfwd one an element of the argument after a second derivative; hessian both. Errors(runtime): PyTorch's
// texts. Use: auto slope = core::func::grad([](const core::Tensor& w, const core::Tensor& v) { return (w * w *
// v).sum(); });
//      core::Tensor g = slope(x, x);

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/tensor_tree.h"
#include "libcore/base/bytes.h"
#include "libcore/base/device.h"
#include "libcore/tensor/tensor.h"

namespace core::func {

/// Numbers drawn inside of vmap(): an error, other ones for each sample, or the same for all.
enum class Randomness { error, different, same };

struct VmapOptions {
  /// For each argument the dimension that runs over the samples, or none: the same for all. A shorter list than there
  /// are arguments is an error, an empty one means dimension 0 of all.
  std::vector<std::optional<std::int64_t>> in_dims = {};
  /// Where the samples go in each result; the last one stands for all that follow.
  std::vector<std::int64_t> out_dims = {0};
  Randomness randomness = Randomness::error;
};

namespace detail {

/// One call of a function whose derivatives are wanted.
class Derivation {
 public:
  Derivation();
  /// What stands for `x` in the call. Error(runtime) "only Tensors of floating point dtype can require gradients".
  Tensor input(const Tensor& x);
  /// Runs the function with history on.
  template <class Call>
  auto run(Call call) {
    const GradModeGuard history(true);
    return call();
  }
  /// Looks at what the function gave.
  void finish(std::vector<Tensor> outputs);
  /// The function's results for the caller: without history where nobody outside asks for it.
  Tensor shown(const Tensor& output) const;
  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<Tensor>& outputs() const { return outputs_; }

  /// Of the one output, a scalar. Error(runtime) "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor
  /// ...".
  std::vector<Tensor> gradients() const;
  /// For upstream gradients of the outputs.
  std::vector<Tensor> pulled_back(const std::vector<Tensor>& cotangents) const;
  /// For changes of the inputs those of the outputs.
  std::vector<Tensor> pushed_forward(const std::vector<Tensor>& tangents) const;
  /// For each output, for each input: (sizes of the output..., sizes of the input...).
  std::vector<Tensor> by_rows(const Tensor& output) const;
  std::vector<Tensor> by_columns(const Tensor& output) const;

 private:
  std::vector<Tensor> slopes(const std::vector<Tensor>& of, const std::vector<Tensor>& ups, bool tracked) const;
  bool outside_;  // whether history was on for the caller
  bool tracked_ = false;
  std::vector<Tensor> inputs_, own_leaves_, outputs_;
};

/// The arguments of a call; written out, as std::tuple{x} of a tuple would be x.
template <class... Each>
std::tuple<Each...> kept(const Each&... each) {
  return std::tuple<Each...>(each...);
}

template <std::size_t... kNums>
struct ArgumentsOr0 {
  using type = std::index_sequence<kNums...>;
};
template <>
struct ArgumentsOr0<> {
  using type = std::index_sequence<0>;
};
template <std::size_t... kNums>
using Arguments = typename ArgumentsOr0<kNums...>::type;

/// The arguments with the derivation's inputs in the place of those that count.
template <class Tuple, std::size_t... kNums>
Tuple with_inputs(Derivation& derivation, Tuple arguments, std::index_sequence<kNums...>) {
  static_assert(((kNums < std::tuple_size_v<Tuple>)&&...), "there is no argument of this number");
  ((std::get<kNums>(arguments) =
        mapped(std::get<kNums>(arguments), [&](const Tensor& x) { return derivation.input(x); })),
   ...);
  return arguments;
}

/// One tensor for each input, in the form of the arguments that count: of one argument, or a tuple.
template <class Tuple, std::size_t... kNums>
auto in_form_of(const Tuple& arguments, const std::vector<Tensor>& leaves, std::index_sequence<kNums...>) {
  std::size_t at = 0;
  if constexpr (sizeof...(kNums) == 1) {
    return with_leaves(std::get<kNums...>(arguments), leaves, at);
  } else {
    return std::tuple{with_leaves(std::get<kNums>(arguments), leaves, at)...};
  }
}

template <class Numbers, class F, class Tuple>
auto differentiated(Derivation& derivation, const F& f, const Tuple& arguments) {
  const Tuple given = with_inputs(derivation, arguments, Numbers());
  auto y = derivation.run([&] { return std::apply(f, given); });
  derivation.finish(leaves_of(y));
  return y;
}

class Batching;

/// What vmap() needs of its arguments and results, whatever their types.
class Batch {
 public:
  Batch(const VmapOptions& options, std::size_t arguments);
  /// The next argument of the call and all its tensors. Errors(value): PyTorch's texts for dimensions and sizes.
  void add(const std::vector<Tensor>& leaves);
  std::int64_t size() const;
  /// Sample `i` of a tensor of argument `argument`.
  Tensor sample(const Tensor& x, std::size_t argument, std::int64_t i) const;
  /// Before and after the call for one sample. Error(runtime) for random numbers where they are an error, and for
  /// changes in place of what all samples share.
  void before(std::int64_t i);
  void after(std::int64_t i, std::vector<Tensor> results);
  /// The first sample of a tensor of an argument, which stands for all of them.
  Tensor first(Batching& batching, const Tensor& x, std::size_t argument) const;
  /// The results of all samples, by one run for all of them; nothing where that cannot be, and a loop has to do it.
  using AtOnce = std::function<std::vector<Tensor>(Batching&)>;
  std::optional<std::vector<Tensor>> at_once(const AtOnce& call);
  /// The results of all samples, stacked.
  std::vector<Tensor> stacked() const;

 private:
  struct Shared {
    Tensor tensor;
    std::uint32_t version;
  };
  void check_shared() const;
  void start_again() const;
  bool drew_nothing() const;
  std::optional<std::vector<Tensor>> joined(Batching& batching, const std::vector<Tensor>& results) const;
  VmapOptions options_;
  std::vector<std::optional<std::int64_t>> dims_;
  std::vector<Shared> shared_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::pair<Device, ByteVector>> random_;  // states of the generators before the first sample
  std::vector<std::vector<Tensor>> results_;
};

template <class Tuple, std::size_t... kAll>
Tuple first_of(const Batch& batch, Batching& batching, const Tuple& arguments, std::index_sequence<kAll...>) {
  return Tuple{mapped(std::get<kAll>(arguments), [&](const Tensor& x) { return batch.first(batching, x, kAll); })...};
}

template <class Tuple, std::size_t... kAll>
Tuple sample_of(const Batch& batch, const Tuple& arguments, std::int64_t i, std::index_sequence<kAll...>) {
  return Tuple{mapped(std::get<kAll>(arguments), [&](const Tensor& x) { return batch.sample(x, kAll, i); })...};
}

}  // namespace detail

/// A function that gives the gradients of f, which gives a scalar, and f's value: (gradients, value).
template <std::size_t... kNums, class F>
auto grad_and_value(F f) {
  return [f = std::move(f)](const auto&... each) {
    const auto arguments = detail::kept(each...);
    detail::Derivation derivation;
    const Tensor y = detail::differentiated<detail::Arguments<kNums...>>(derivation, f, arguments);
    const std::vector<Tensor> found = derivation.gradients();
    return std::pair{detail::in_form_of(arguments, found, detail::Arguments<kNums...>()), derivation.shown(y)};
  };
}
template <std::size_t... kNums, class F>
auto grad(F f) {
  return [both = grad_and_value<kNums...>(std::move(f))](const auto&... each) { return both(each...).first; };
}

/// (f(arguments...), function): the function takes upstream gradients in the form of f's result, and gives those of the
/// arguments: of one argument, or a tuple. It may be called several times.
template <class F, class... Each>
auto vjp(F f, const Each&... each) {
  const std::tuple<Each...> arguments{each...};
  using All = std::index_sequence_for<Each...>;
  auto derivation = std::make_shared<detail::Derivation>();
  auto y = detail::differentiated<All>(*derivation, f, arguments);
  auto shown = mapped(y, [&](const Tensor& output) { return derivation->shown(output); });
  auto back = [derivation, arguments](const decltype(y)& cotangents) {
    return detail::in_form_of(arguments, derivation->pulled_back(leaves_of(cotangents)), All());
  };
  return std::pair{std::move(shown), std::move(back)};
}

/// (f(primals...), function): the jvp at these primals, which takes changes of them, any number of times.
template <class F, class... Each>
auto linearize(F f, const Each&... primals) {
  auto derivation = std::make_shared<detail::Derivation>();
  auto y = detail::differentiated<std::index_sequence_for<Each...>>(*derivation, f, std::tuple<Each...>{primals...});
  auto shown = mapped(y, [&](const Tensor& output) { return derivation->shown(output); });
  auto along = [derivation, y](const Each&... tangents) {
    std::size_t at = 0;
    return with_leaves(y, derivation->pushed_forward(leaves_of(std::tuple<Each...>{tangents...})), at);
  };
  return std::pair{std::move(shown), std::move(along)};
}

/// (f(primals...), the derivative along `tangents`), which are of the form of the primals.
template <class F, class... Each>
auto jvp(F f, const std::tuple<Each...>& primals, const std::tuple<Each...>& tangents) {
  auto [y, along] = std::apply([&](const Each&... each) { return linearize(std::move(f), each...); }, primals);
  return std::pair{std::move(y), std::apply(along, tangents)};
}
template <class F>
auto jvp(F f, const Tensor& primal, const Tensor& tangent) {
  return jvp(std::move(f), std::tuple{primal}, std::tuple{tangent});
}

/// A function that gives the Jacobian of f, which gives a tensor: (sizes of the result..., sizes of the argument...)
/// for each tensor of the arguments that count. jacrev: row by row; jacfwd: column by column, for results with more
/// elements than the arguments. Error(runtime) for complex numbers: "jacrev: Expected all inputs to be real but
/// received complex tensor at flattened input idx: 0".
template <std::size_t... kNums, class F>
auto jacrev(F f) {
  return [f = std::move(f)](const auto&... each) {
    const auto arguments = detail::kept(each...);
    detail::Derivation derivation;
    const Tensor y = detail::differentiated<detail::Arguments<kNums...>>(derivation, f, arguments);
    return detail::in_form_of(arguments, derivation.by_rows(y), detail::Arguments<kNums...>());
  };
}
template <std::size_t... kNums, class F>
auto jacfwd(F f) {
  return [f = std::move(f)](const auto&... each) {
    const auto arguments = detail::kept(each...);
    detail::Derivation derivation;
    const Tensor y = detail::differentiated<detail::Arguments<kNums...>>(derivation, f, arguments);
    return detail::in_form_of(arguments, derivation.by_columns(y), detail::Arguments<kNums...>());
  };
}
/// Of a function of one tensor that counts, which gives a tensor: jacfwd(jacrev(f)).
template <std::size_t kNum = 0, class F>
auto hessian(F f) {
  return jacfwd<kNum>(jacrev<kNum>(std::move(f)));
}

/// A function that runs f over batches: f is given one sample of each argument, and gives a tensor or several.
/// Errors(value): "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes [2, 3] for the
/// mapped dimension" and PyTorch's other texts.
template <class F>
auto vmap(F f, const VmapOptions& options = {}) {
  return [f = std::move(f), options](const auto&... each) {
    const auto arguments = detail::kept(each...);
    using All = std::make_index_sequence<sizeof...(each)>;
    using Result = std::decay_t<decltype(std::apply(f, arguments))>;
    detail::Batch batch(options, sizeof...(each));
    (batch.add(leaves_of(each)), ...);
    std::optional<Result> form;
    const auto all = batch.at_once([&](detail::Batching& batching) {
      form = std::apply(f, detail::first_of(batch, batching, arguments, All()));
      return leaves_of(*form);
    });
    std::size_t place = 0;
    if (all) return with_leaves(*form, *all, place);
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      batch.before(i);
      form = std::apply(f, detail::sample_of(batch, arguments, i, All()));
      batch.after(i, leaves_of(*form));
    }
    std::size_t at = 0;
    return with_leaves(*form, batch.stacked(), at);
  };
}

}  // namespace core::func
