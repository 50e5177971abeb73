#pragma once
// Trainings of two ranks whose loop keeps gradients in the ways in which it could see that large ones lie in the memory
// of a bucket; each throws where it sees something. Use: if (role == "kept") test::keep_gradients();

#include <stdexcept>
#include <string>
#include <vector>

#include "libcore/dist/distributed_data_parallel.h"
#include "libcore/dist/init.h"
#include "libcore/module/linear.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"

namespace test {

/// Two large weights, whose gradients are the mean of what the ranks give: `value` of rank 0, `value` + 2 of rank 1.
struct TwoLarge : core::ModuleOf<TwoLarge> {
  core::Linear first{300, 400, {.bias = false}};
  core::Linear second{300, 400, {.bias = false}};
  void members(core::Members& m) override { m.child("first", first).child("second", second); }
  core::Tensor forward(const core::Tensor& x) { return core::sum(first(x)) + core::sum(second(x)); }
};

class Keeper {
 public:
  explicit Keeper(const core::distributed::DistributedDataParallelOptions& options = {}) : model_(net_, options) {}

  core::Tensor forward(double value) { return model_(core::full({1, 300}, value + 2 * core::distributed::get_rank())); }
  void backward(double value) { forward(value).backward(); }
  core::Tensor grad() const { return net_.first.weight.grad(); }
  core::Tensor other_grad() const { return net_.second.weight.grad(); }
  const core::Tensor& weight() const { return net_.first.weight; }
  void zero_grad(bool set_to_none = true) { net_.zero_grad(set_to_none); }
  /// Whether both lie in the memory of one bucket.
  bool is_lent() const {
    const auto at = [](const core::Tensor& grad) { return static_cast<const char*>(grad.raw_data()); };
    return at(grad()) - at(other_grad()) == grad().nbytes() || at(other_grad()) - at(grad()) == grad().nbytes();
  }

 private:
  TwoLarge net_;
  core::distributed::DistributedDataParallel<TwoLarge> model_;
};

inline void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}
inline bool is_all(const core::Tensor& grad, double value) {
  return core::min(grad).item<double>() == value && core::max(grad).item<double>() == value;
}

inline void expect_own_storage(const core::Tensor& grad) {
  expect(grad.storage_offset() == 0 && static_cast<std::int64_t>(grad.storage().nbytes()) == grad.nbytes(), "storage");
}

inline void keep_none() {
  Keeper keeper;
  for (int step = 0; step < 4; ++step) {
    keeper.zero_grad();
    keeper.backward(step);
    expect(is_all(keeper.grad(), step + 1) && is_all(keeper.other_grad(), step + 1), "mean");
    expect(keeper.is_lent(), "copied for nothing");
    expect_own_storage(keeper.grad());
    expect_own_storage(keeper.other_grad());
    keeper.grad().mul_(3);  // as clip_grad_norm_
    expect(is_all(keeper.grad(), 3 * (step + 1)) && is_all(keeper.other_grad(), step + 1), "one of two changed");
  }
}

/// They stay what they were, and a small part of a bucket does not keep all of it from step to step.
inline void keep_those_of_each_step() {
  Keeper keeper;
  std::vector<core::Tensor> kept;
  for (int step = 0; step < 5; ++step) {
    keeper.zero_grad();
    keeper.backward(step);
    kept.push_back(keeper.grad());
    if (step >= 3) expect(!keeper.is_lent(), "each step keeps a bucket");
  }
  for (int step = 0; step < 5; ++step)
    expect(is_all(kept[static_cast<std::size_t>(step)], step + 1), "a kept one changed");
}

/// Whoever holds the gradient, or its memory, sees the new values there.
inline void keep_the_tensor() {
  Keeper keeper;
  for (int step = 0; step < 4; ++step) {
    keeper.zero_grad();
    core::Tensor made = core::zeros_like(keeper.weight());
    const core::Tensor alias = made.detach();
    keeper.weight().set_grad(made);
    if (step % 2 == 1) made = {};
    keeper.backward(step);
    expect(is_all(keeper.grad(), step + 1) && is_all(alias, step + 1), "other memory");
    if (made.defined()) expect(made.is_same(keeper.grad()), "another tensor");
  }
}

/// Of the program, not of a tensor: a flat block for an optimizer of its own, what another library sees.
inline void keep_own_memory(bool given_behind_forward) {
  Keeper keeper;
  for (int step = 0; step < 3; ++step) {
    keeper.zero_grad();
    std::vector<float> memory(300 * 400);
    const auto give = [&] { keeper.weight().set_grad(core::from_blob(memory.data(), {400, 300}, core::DType::f32)); };
    if (!given_behind_forward) give();
    const core::Tensor loss = keeper.forward(step);
    if (given_behind_forward) give();
    loss.backward();
    expect(memory.front() == static_cast<float>(step + 1) && memory.back() == memory.front(), "not in its memory");
    keeper.zero_grad();
  }
}

inline void keep_zeroed_ones() {
  Keeper keeper;
  for (int step = 0; step < 4; ++step) {
    keeper.zero_grad(false);
    const core::Tensor held = keeper.grad();
    keeper.backward(step);
    expect(is_all(keeper.grad(), step + 1), "mean in place");
    if (step > 0) expect(held.is_same(keeper.grad()), "another tensor in its place");
  }
}

/// A hook of the loop's own, behind that of DDP, sees the gradient of this rank, and holds what becomes the mean.
inline void keep_in_a_hook() {
  Keeper keeper;
  core::Tensor held;
  double seen = -1;
  keeper.weight().register_post_accumulate_grad_hook([&](const core::Tensor& weight) {
    held = weight.grad();
    seen = held[0][0].item<double>();
  });
  keeper.backward(4);
  keeper.zero_grad();
  held = {};
  keeper.backward(5);  // in rebuilt buckets: that of the first weight may be the last, which is summed by then
  expect(seen == 6 || seen == 5 + 2 * core::distributed::get_rank(), "a hook's view");
  expect(held.is_same(keeper.grad()) && is_all(held, 6), "a hook's tensor");
}

/// Sums on top of what several backward passes gathered.
inline void keep_from_pass_to_pass() {
  Keeper keeper;
  for (int step = 0; step < 3; ++step) {
    keeper.backward(1);
    expect(is_all(keeper.grad(), 2 * (step + 1)), "gathered");
  }
}

inline void keep_gradients() {
  keep_none();
  keep_those_of_each_step();
  keep_the_tensor();
  keep_own_memory(false);
  keep_own_memory(true);
  keep_zeroed_ones();
  keep_in_a_hook();
  keep_from_pass_to_pass();
}

}  // namespace test
