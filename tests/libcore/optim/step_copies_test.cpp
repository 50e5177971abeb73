// Copies that a step makes of what it writes.
#include "libcore/optim/detail/step_copies.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "libcore/backend/threads.h"
#include "libcore/module/parameter.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/adaptive.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace {

using core::Parameter;
using core::Tensor;
using core::detail::StepCopies;

using MakeOptimizer = std::function<std::unique_ptr<core::Optimizer>(std::vector<Tensor>)>;

struct Kind {
  const char* name;
  MakeOptimizer make;
};

template <class Optimizer, class Options>
Kind kind(const char* name, const Options& options) {
  return {name,
          [options](std::vector<Tensor> params) { return std::make_unique<Optimizer>(std::move(params), options); }};
}

class StepCopiesOf : public testing::TestWithParam<Kind> {};

/// Two optimizers over equal parameters: of less than one part, of several with a rest, and of exactly one.
struct Twins {
  explicit Twins(const Kind& kind) {
    core::manual_seed(4);
    for (const std::int64_t count : {std::int64_t{7}, std::int64_t{300001}, std::int64_t{65536}}) {
      const Tensor start = core::randn({count});
      const Tensor grad = core::randn({count});
      for (auto* own : {&plain_params, &params}) {
        own->push_back(Parameter(start.clone()));
        own->back().set_grad(grad);
      }
    }
    plain = kind.make(plain_params);
    copying = kind.make(params);
  }
  std::vector<Tensor> plain_params, params;
  std::unique_ptr<core::Optimizer> plain, copying;
};

TEST_P(StepCopiesOf, AreTheValuesAfterAStepThatIsThatOfTheOptimizerToTheBit) {
  Twins twins(GetParam());
  for (core::Optimizer* optimizer : {twins.plain.get(), twins.copying.get()}) optimizer->step();  // makes the state
  std::vector<Tensor> written = twins.params;
  for (const Tensor& param : twins.params) {
    for (const auto& [name, tensor] : twins.copying->state_of(param)) {
      if (name != "step") written.push_back(tensor);
    }
  }
  StepCopies copies;
  std::vector<Tensor> targets;
  for (const Tensor& tensor : written) {
    targets.push_back(core::zeros(tensor.sizes(), {.dtype = tensor.dtype()}));
    copies.add(tensor.storage().data(), targets.back().mutable_raw_data(), tensor.storage().nbytes());
  }
  {
    const StepCopies::Scope now(copies);
    twins.copying->step();
  }
  twins.plain->step();
  for (std::size_t i = 0; i < written.size(); ++i) {
    EXPECT_TRUE(copies.made(written[i].storage().data())) << i;
    EXPECT_TRUE(targets[i].equal(written[i])) << i;
  }
  for (std::size_t i = 0; i < twins.params.size(); ++i) EXPECT_TRUE(twins.params[i].equal(twins.plain_params[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, StepCopiesOf,
    testing::Values(kind<core::SGD>("SGD", core::SGDOptions{.lr = 0.1, .momentum = 0.9}),
                    kind<core::Adam>("Adam", core::AdamOptions{.lr = 0.01}),
                    kind<core::AdamW>("AdamW", core::AdamWOptions{.lr = 0.01, .amsgrad = true}),
                    kind<core::RMSprop>("RMSprop", core::RMSpropOptions{.lr = 0.01, .momentum = 0.5, .centered = true}),
                    kind<core::Adagrad>("Adagrad", core::AdagradOptions{.lr = 0.01}),
                    kind<core::Adadelta>("Adadelta", core::AdadeltaOptions{.lr = 1.0})),
    [](const auto& one) { return one.param.name; });

TEST(StepCopies, AreMadeForWhatTheStepWritesWhole) {
  Parameter a(core::ones({4}));
  Parameter b(core::ones({4}));
  a.set_grad(core::ones({4}));
  core::SGD sgd({a, b}, {.lr = 0.5});
  StepCopies copies;
  const Tensor to = core::zeros({4}), other = core::zeros({4}), longer = core::ones({8});
  copies.add(a.storage().data(), to.mutable_raw_data(), 16);
  copies.add(b.storage().data(), other.mutable_raw_data(), 16);
  {
    const StepCopies::Scope now(copies);
    EXPECT_EQ(StepCopies::current(), &copies);
    sgd.step();
  }
  EXPECT_EQ(StepCopies::current(), nullptr);
  EXPECT_TRUE(copies.made(a.storage().data()));
  EXPECT_FALSE(copies.made(b.storage().data()));  // it has no gradient
  EXPECT_FALSE(copies.made(longer.storage().data()));
  EXPECT_EQ(to.to_vector<float>(), a.to_vector<float>());
}

TEST(StepCopies, OfHalfABlockOrOfOneHalfTwiceAreNotMade) {
  const Tensor whole = core::zeros({8}), to = core::zeros({8});
  const auto* data = static_cast<const float*>(whole.raw_data());
  StepCopies half, twice, both;
  for (StepCopies* copies : {&half, &twice, &both}) copies->add(data, to.mutable_raw_data(), 32);
  half.copy(data, 4, 4);
  EXPECT_FALSE(half.made(data));
  twice.copy(data, 4, 4);
  twice.copy(data, 4, 4);
  EXPECT_FALSE(twice.made(data));
  both.copy(data, 4, 4);
  both.copy(data + 4, 4, 4);
  EXPECT_TRUE(both.made(data));
  both.copy(data, 8, 4);
  EXPECT_FALSE(both.made(data));  // written once more, and not copied
}

TEST(StepCopies, DoNotCountWhereAHookRunsAfterTheStep) {
  Parameter a(core::ones({4}));
  a.set_grad(core::ones({4}));
  core::SGD sgd({a}, {.lr = 0.5});
  sgd.register_step_post_hook([&](core::Optimizer&) { a.detach().fill_(7); });
  StepCopies copies;
  const Tensor to = core::zeros({4});
  copies.add(a.storage().data(), to.mutable_raw_data(), 16);
  const StepCopies::Scope now(copies);
  sgd.step();
  EXPECT_FALSE(copies.made(a.storage().data()));
}

}  // namespace
