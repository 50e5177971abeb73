// The state of optimizers and schedules in files: PyTorch's is taken over, ours has PyTorch's shape.
#include <gtest/gtest.h>

#include <memory>

#include "libckpt/bridge/training_state.h"
#include "libcore/base/error.h"
#include "libcore/module/parameter.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/lbfgs.h"
#include "libcore/optim/schedule_cycle.h"
#include "libcore/optim/schedule_group.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::Value;
using core::Tensor;

/// One optimizer of data/torch_optimizers.pt.
struct Case {
  const char* name;
  std::unique_ptr<core::Optimizer> (*make)(const std::vector<Tensor>&);
  bool is_exact;  ///< no roots, whose last bit depends on the math library
};

std::ostream& operator<<(std::ostream& out, const Case& which) {
  return out << which.name;
}

Tensor tensor_at(const Value& list, std::size_t i) {
  return ckpt::to_tensor(list.as_list().at(i).as_entry(), core::Device());
}

class TorchOptimizer : public testing::TestWithParam<Case> {
 protected:
  TorchOptimizer() : checkpoint_(ckpt::open(CKPT_BRIDGE_DATA "/torch_optimizers.pt")) {
    for (std::size_t i = 0; i < 2; ++i) params_.push_back(core::Parameter(tensor_at(saved("before"), i)));
    optimizer_ = GetParam().make(params_);
  }
  const Value& saved(const char* what) const { return *checkpoint_.root.find(GetParam().name)->find(what); }

  /// As make_torch_optimizers.py.
  void step(int k) {
    for (const Tensor& p : params_) p.set_grad(p.detach() / 2 + (k % 3));
    if (optimizer_->name() != "LBFGS") return optimizer_->step();
    optimizer_->step([&] {
      optimizer_->zero_grad();
      Tensor total;
      for (const Tensor& p : params_) {
        const Tensor one = core::sum(p * p * core::arange(1.0, static_cast<double>(p.numel()) + 1).view(p.sizes()));
        total = total.defined() ? total + one : one;
      }
      total.backward();
      return total;
    });
  }

  ckpt::Checkpoint checkpoint_;
  std::vector<Tensor> params_;
  std::unique_ptr<core::Optimizer> optimizer_;
};

TEST_P(TorchOptimizer, GoesOnHere) {
  core::MultiStepLR schedule(*optimizer_, {.milestones = {99}});
  optimizer_->load_state_dict(ckpt::to_optimizer_state(saved("optimizer")));
  schedule.load_state_dict(ckpt::to_option_map(saved("schedule")));
  for (int k = 3; k < 6; ++k) {
    step(k);
    schedule.step();
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor wanted = tensor_at(saved("after"), i), ours = params_[i].detach();
    EXPECT_TRUE(GetParam().is_exact ? ours.equal(wanted) : core::allclose(ours, wanted, {.rtol = 1e-6, .atol = 1e-7}));
  }
  EXPECT_EQ(optimizer_->param_groups()[0].lr(), saved("lr").as_real());
}

TEST_P(TorchOptimizer, IsWrittenAsItWasRead) {
  optimizer_->load_state_dict(ckpt::to_optimizer_state(saved("optimizer")));
  const Value again = ckpt::to_value(optimizer_->state_dict());
  const auto theirs = ckpt::list_entries(*saved("optimizer").find("state"));
  std::size_t found = 0;
  for (const ckpt::NamedEntry& ours : ckpt::list_entries(*again.find("state"))) {
    for (const ckpt::NamedEntry& other : theirs) {
      if (other.name != ours.name) continue;
      ++found;
      EXPECT_EQ(ckpt::read_all(*ours.entry->bytes), ckpt::read_all(*other.entry->bytes)) << ours.name;
    }
  }
  EXPECT_EQ(found, ckpt::list_entries(*again.find("state")).size());
  EXPECT_EQ(*again.find("param_groups"), *saved("optimizer").find("param_groups"));
}

const Case kCases[] = {
    {"sgd",
     [](const std::vector<Tensor>& p) -> std::unique_ptr<core::Optimizer> { return std::make_unique<core::SGD>(p); },
     true},
    {"adam",
     [](const std::vector<Tensor>& p) -> std::unique_ptr<core::Optimizer> { return std::make_unique<core::Adam>(p); },
     false},
    {"adamw",
     [](const std::vector<Tensor>& p) -> std::unique_ptr<core::Optimizer> { return std::make_unique<core::AdamW>(p); },
     false},
    {"lbfgs",
     [](const std::vector<Tensor>& p) -> std::unique_ptr<core::Optimizer> { return std::make_unique<core::LBFGS>(p); },
     false},
};
INSTANTIATE_TEST_SUITE_P(Kinds, TorchOptimizer, testing::ValuesIn(kCases));

/// What comes back from a file that holds `value` alone.
Value through_file(const Value& value, const char* name) {
  const test::TempDir dir;
  ckpt::Dict root;
  root.items.emplace_back(Value::text("state"), value);
  ckpt::Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(root));
  ckpt::save(checkpoint, dir.path() / name);
  return *ckpt::open(dir.path() / name).root.find("state");
}

class ScheduleFile : public testing::TestWithParam<const char*> {};

TEST_P(ScheduleFile, KeepsSchedulesThatHoldOthers) {
  core::SGD optimizer({core::Parameter(core::zeros({1}))}, {.lr = 0.5, .momentum = 0.9});
  const auto make = [&] {
    std::vector<std::shared_ptr<core::LRScheduler>> parts = {
        std::make_shared<core::MultiStepLR>(optimizer, core::MultiStepLR::Options{{1, 1, 3}, 0.5}),
        std::make_shared<core::OneCycleLR>(optimizer, core::OneCycleLR::Options{.max_lr = 1, .total_steps = 9}),
        std::make_shared<core::LambdaLR>(optimizer, [](std::int64_t) { return 1.0; })};
    return std::make_unique<core::SequentialLR>(optimizer, parts, std::vector<std::int64_t>{2, 4});
  };
  const auto schedule = make();
  optimizer.step();
  for (int i = 0; i < 3; ++i) schedule->step();
  const core::OptionMap saved = schedule->state_dict();
  const auto fresh = make();
  fresh->load_state_dict(ckpt::to_option_map(through_file(ckpt::to_value(saved), GetParam())));
  EXPECT_EQ(ckpt::to_value(fresh->state_dict()), ckpt::to_value(saved));
  EXPECT_EQ(fresh->last_lr(), schedule->last_lr());
}

INSTANTIATE_TEST_SUITE_P(Formats, ScheduleFile, testing::Values("run.ckpt", "run.pth"));

TEST(ScheduleState, HasTheShapeOfPyTorchs) {
  core::SGD optimizer({core::Parameter(core::zeros({1}))}, {.lr = 0.5});
  const core::MultiStepLR schedule(optimizer, {.milestones = {2, 2, 5}});
  const Value state = ckpt::to_value(schedule.state_dict());
  const Value& milestones = *state.find("milestones");
  ASSERT_TRUE(milestones.is(Value::Kind::dict));  // a Counter: epoch to times
  EXPECT_EQ(milestones.as_dict().items[0], std::make_pair(Value::integer(2), Value::integer(2)));
  EXPECT_TRUE(state.find("base_lrs")->is(Value::Kind::list));
  EXPECT_THROW(ckpt::to_option_map(Value::integer(1)), core::Error);
}

}  // namespace
