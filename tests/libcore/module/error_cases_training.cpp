// Errors and warnings of data loading, optimizers, schedules, and of indexing and moving tensors.
#include <map>
#include <memory>

#include "libcore/core.h"
#include "tests/libcore/module/error_cases.h"

namespace test {
namespace {

using namespace core;  // a long list of calls
using P = ErrorProgram;

struct Range {
  std::int64_t count;
  std::int64_t size() const { return count; }
  std::int64_t get(std::int64_t i) const { return i; }
};

struct Rows final : BatchSampler {
  std::int64_t size() const override { return 1; }
  BatchStream start() override { return {}; }
};

std::vector<Tensor> one_parameter() {
  return {Parameter(ones({1}))};
}

void load(const P& p, const DataLoaderOptions& options) {
  const Range data{p.n(0)};
  DataLoader loader(data, options);
}

void add_loader_cases(ErrorCases& c) {
  c["data/batch_size"] = [](const P& p) { load(p, {.batch_size = p.n(1)}); };
  c["data/batch_size_negative"] = c["data/batch_size"];
  c["data/sampler_shuffle"] = [](const P& p) {
    load(p, {.shuffle = true, .sampler = std::make_shared<SequentialSampler>(p.n(1))});
  };
  c["data/batch_sampler"] = [](const P& p) {
    load(p, {.batch_size = p.n(1), .batch_sampler = std::make_shared<Rows>()});
  };
  c["data/workers"] = [](const P& p) { load(p, {.num_workers = static_cast<int>(p.n(1))}); };
  c["data/timeout"] = [](const P& p) { load(p, {.timeout = p.x(1)}); };
  c["data/prefetch"] = [](const P& p) { load(p, {.prefetch_factor = static_cast<int>(p.n(1))}); };
  c["data/random_num_samples"] = [](const P& p) { RandomSampler(p.n(0), {.num_samples = p.n(1)}); };
  c["data/empty_shuffle"] = [](const P&) {
    const Range none{0};
    DataLoader loader(none, {.shuffle = true});
  };
  c["data/weighted"] = [](const P& p) { WeightedRandomSampler({p.x(0), p.x(1)}, p.n(2)); };
  c["data/batch_sampler_size"] = [](const P& p) {
    FixedBatchSampler(std::make_shared<SequentialSampler>(p.n(0)), {.batch_size = p.n(1)});
  };
  c["dp/sampler_rank"] = [](const P& p) { DistributedSampler(p.n(0), {.num_replicas = p.n(1), .rank = p.n(2)}); };
}

void add_dataset_cases(ErrorCases& c) {
  c["data/tensor_dataset"] = [](const P& p) { TensorDataset(ones({p.n(0)}), ones({p.n(1)})); };
  c["data/split"] = [](const P& p) { random_split(Range{p.n(0)}, {p.x(1), p.x(2)}); };
  c["data/split_fraction"] = c["data/split"];
  c["data/split_sum"] = c["data/split"];
  c["data/collate_shape"] = [](const P& p) { default_collate(std::vector<Tensor>{ones({p.n(0)}), ones({p.n(1)})}); };
  c["data/collate_len"] = [](const P& p) {
    default_collate(std::vector<std::vector<std::int64_t>>{{p.n(0), p.n(1)}, {p.n(2)}});
  };
}

void add_parallel_cases(ErrorCases& c) {
  c["dp/gather_cpu"] = [](const P& p) { gather({ones({p.n(0)}), ones({p.n(1)})}, Device(DeviceType::cuda, 0)); };
  c["dp/gather_dicts"] = [](const P& p) {
    std::map<std::string, Tensor> one{{"a", ones({p.n(0)})}}, two{{"a", ones({p.n(1)})}, {"b", ones({p.n(2)})}};
    gather_values(std::vector{one, two}, Device(p.s(3)));
  };
  c["dp/replicate"] = [](const P& p) {
    Linear net(p.n(0), p.n(1));
    replicate(net, {Device(DeviceType::cuda, 0), Device(DeviceType::cuda, 1)});
  };
  c["dp/parallel_apply_len"] = [](const P& p) {
    auto module = std::make_shared<ReLU>();
    parallel_apply(std::vector{module, module}, std::vector<Tensor>{ones({p.n(0)})}, {Device()});
  };
  c["default_type/cuda"] = [](const P& p) {
    set_default_tensor_type(p.s(0));
    set_default_device(Device());
  };
  c["default_type/unknown"] = c["default_type/cuda"];
}

void add_optimizer_cases(ErrorCases& c) {
  c["optim/empty"] = [](const P& p) { SGD(std::vector<Tensor>(), {.lr = p.x(0)}); };
  c["optim/lr_SGD"] = [](const P& p) { SGD(one_parameter(), {.lr = p.x(1)}); };
  c["optim/lr_Adam"] = [](const P& p) { Adam(one_parameter(), {.lr = p.x(1)}); };
  c["optim/lr_AdamW"] = [](const P& p) { AdamW(one_parameter(), {.lr = p.x(1)}); };
  c["optim/lr_RMSprop"] = [](const P& p) { RMSprop(one_parameter(), {.lr = p.x(1)}); };
  c["optim/lr_Adagrad"] = [](const P& p) { Adagrad(one_parameter(), {.lr = p.x(1)}); };
  c["optim/lr_Adadelta"] = [](const P& p) { Adadelta(one_parameter(), {.lr = p.x(1)}); };
  c["optim/momentum"] = [](const P& p) { SGD(one_parameter(), {.lr = p.x(1), .momentum = p.x(2)}); };
  c["optim/weight_decay"] = [](const P& p) { SGD(one_parameter(), {.lr = p.x(1), .weight_decay = p.x(2)}); };
  c["optim/nesterov"] = [](const P& p) { SGD(one_parameter(), {.lr = p.x(1), .nesterov = true}); };
  c["optim/beta0"] = [](const P& p) { Adam(one_parameter(), {.betas = {p.x(1), p.x(2)}}); };
  c["optim/beta1"] = c["optim/beta0"];
  c["optim/eps"] = [](const P& p) { Adam(one_parameter(), {.eps = p.x(1)}); };
  c["optim/adam_wd"] = [](const P& p) { Adam(one_parameter(), {.weight_decay = p.x(1)}); };
  c["optim/rho"] = [](const P& p) { Adadelta(one_parameter(), {.rho = p.x(1)}); };
  c["optim/alpha"] = [](const P& p) { RMSprop(one_parameter(), {.alpha = p.x(1)}); };
  c["optim/lr_decay"] = [](const P& p) { Adagrad(one_parameter(), {.lr_decay = p.x(1)}); };
  c["optim/nonleaf"] = [](const P& p) { SGD({ones({p.n(0)}, {.requires_grad = true}) * p.n(1)}, {.lr = p.x(2)}); };
  c["optim/twice"] = [](const P& p) {
    const Parameter parameter(ones({p.n(0)}));
    SGD(std::vector<ParamGroup>{{.params = {parameter}}, {.params = {parameter}}}, {.lr = p.x(1)});
  };
  c["optim/load_groups"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1)});
    OptimizerState state = optimizer.state_dict();
    state.param_groups.push_back(state.param_groups[0]);
    optimizer.load_state_dict(state);
  };
  c["optim/load_sizes"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1)});
    OptimizerState state = optimizer.state_dict();
    state.param_groups[0].params = {0, 1};
    optimizer.load_state_dict(state);
  };
}

void plateau(const P& p, std::size_t lr, const ReduceLROnPlateau::Options& options) {
  SGD optimizer(one_parameter(), {.lr = p.x(lr)});
  ReduceLROnPlateau schedule(optimizer, options);
}

void add_schedule_cases(ErrorCases& c) {
  c["sched/milestones_plateau"] = [](const P& p) { plateau(p, 1, {.factor = p.x(2)}); };
  c["sched/plateau_mode"] = [](const P& p) { plateau(p, 1, {.mode = p.s(0)}); };
  c["sched/plateau_threshold"] = [](const P& p) { plateau(p, 1, {.threshold_mode = p.s(0)}); };
  c["sched/onecycle_steps"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1), .momentum = p.x(2)});
    OneCycleLR schedule(optimizer, {.max_lr = p.x(3)});
  };
  c["sched/onecycle_over"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1), .momentum = p.x(2)});
    OneCycleLR schedule(optimizer, {.max_lr = p.x(3), .total_steps = p.n(4)});
    for (std::int64_t i = 0; i < p.n(5); ++i) {
      optimizer.step();
      schedule.step();
    }
  };
  c["sched/onecycle_pct"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1), .momentum = p.x(2)});
    OneCycleLR schedule(optimizer, {.max_lr = p.x(3), .total_steps = p.n(4), .pct_start = p.x(5)});
  };
  c["sched/linear_start"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1)});
    LinearLR schedule(optimizer, {.start_factor = p.x(2)});
  };
  c["sched/linear_end"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1)});
    LinearLR schedule(optimizer, {.end_factor = p.x(2)});
  };
  c["sched/cosine_restart"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1)});
    CosineAnnealingWarmRestarts schedule(optimizer, {.T_0 = p.n(2)});
  };
  c["sched/sequential_milestones"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1)});
    const std::vector<std::shared_ptr<LRScheduler>> parts{std::make_shared<ConstantLR>(optimizer),
                                                          std::make_shared<ExponentialLR>(optimizer, 0.9)};
    SequentialLR schedule(optimizer, parts, {1, 2});
  };
}

void add_tensor_cases(ErrorCases& c) {
  c["shape/diag_3d"] = [](const P& p) { diag(ones({p.n(0), p.n(1), p.n(2)})); };
  c["shape/mask_index"] = [](const P& p) {
    index(ones({p.n(0), p.n(1)}), {ones({p.n(2)}, {.dtype = DType::boolean})});
  };
  c["index/int_dim1"] = [](const P& p) { index(ones({p.n(0), p.n(1)}), {Slice(), p.n(2)}); };
  c["index/too_many"] = [](const P& p) { index(ones({p.n(0), p.n(1)}), {p.n(2), p.n(3), p.n(4)}); };
  c["index/list"] = [](const P& p) { index(ones({p.n(0)}), {tensor({p.n(1), p.n(2)})}); };
  c["index/list_dim1"] = [](const P& p) { index(ones({p.n(0), p.n(1)}), {Slice(), tensor({p.n(2), p.n(3)})}); };
  c["index/broadcast"] = [](const P& p) {
    index(ones({p.n(0), p.n(1)}), {tensor({p.n(2), p.n(3)}), tensor({p.n(4), p.n(5), p.n(6)})});
  };
  c["index/float"] = [](const P& p) { index(ones({p.n(0)}), {tensor({p.x(1)})}); };
  c["index/one_hot"] = [](const P& p) { one_hot(tensor({p.n(0)}), p.n(1)); };
  c["index/one_hot_float"] = [](const P& p) { one_hot(tensor({p.x(0)})); };
  c["mixed/where"] = [](const P& p) {
    const Tensor x = ones({p.n(3), p.n(4)}, {.device = Device("meta")});
    where(ones({p.n(0), p.n(1)}) > p.n(2), x, x);
  };
  c["module/no_forward"] = [](const P&) {
    struct Module final : ModuleOf<Module> {
      void members(Members&) override {}
    };
    Module().call(ones({1}));
  };
  c["rng/multinomial_negative"] = [](const P& p) { multinomial(tensor({p.x(0), p.x(1)}), {.num_samples = p.n(2)}); };
  c["rng/state_size"] = [](const P& p) { default_generator().set_state(ByteVector(static_cast<std::size_t>(p.n(0)))); };
  c["warn/leaf_grad_fn_hook"] = [](const P& p) { ones({p.n(0)}).register_hook([](const Tensor& g) { return g; }); };
}

}  // namespace

void add_training_error_cases(ErrorCases& cases) {
  add_loader_cases(cases);
  add_parallel_cases(cases);
  add_dataset_cases(cases);
  add_optimizer_cases(cases);
  add_schedule_cases(cases);
  add_tensor_cases(cases);
}

}  // namespace test
