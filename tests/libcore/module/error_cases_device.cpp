// Errors and warnings of devices, conversions, schedules, data and of reading files.
#include <cmath>

#include "libckpt/bridge.h"
#include "libcore/core.h"
#include "tests/libcore/module/error_cases.h"
#include "tests/support/temp_dir.h"

namespace test {
namespace {

using namespace core;  // a long list of calls
using P = ErrorProgram;

void add_cuda_cases(ErrorCases& c) {
  c["device/both_index"] = [](const P& p) { Device(p.s(0), static_cast<int>(p.n(0))); };
  c["cuda/not_available_factory"] = [](const P& p) { ones({p.n(0)}, {.device = Device("cuda")}); };
  c["cuda/not_available_cuda"] = [](const P& p) { ones({p.n(0)}).cuda(); };
  c["cuda/not_available_module"] = [](const P& p) { Linear(p.n(0), p.n(1)).cuda(); };
  c["cuda/current_device"] = [](const P&) { cuda::current_device(); };
  c["dp/scatter"] = [](const P& p) {
    const std::vector<Device> devices{Device("cuda", static_cast<int>(p.n(2))),
                                      Device("cuda", static_cast<int>(p.n(3)))};
    scatter(ones({p.n(0), p.n(1)}), devices);
  };
  c["cuda/set_device"] = [](const P& p) { cuda::set_device(static_cast<int>(p.n(0))); };
}

struct Holder : ModuleOf<Holder> {
  Tensor kept;
  void members(Members& m) override { m.buffer("kept", kept); }
};

void add_value_cases(ErrorCases& c) {
  c["index/scatter"] = [](const P& p) {
    scatter(zeros({p.n(0), p.n(1)}), p.n(2), tensor({{p.n(3)}, {p.n(4)}}), full({2, 1}, p.x(5)));
  };
  c["dtype/overflow_u8"] = [](const P& p) { tensor({p.n(0)}, {.dtype = DType::u8}); };
  c["scalar/len"] = [](const P& p) { len(tensor(p.x(0))); };
  c["scalar/iterate"] = [](const P& p) {
    for (const Tensor& row : tensor(p.x(0))) row.sum();
  };
  c["scalar/float"] = [](const P& p) { static_cast<void>(static_cast<double>(ones({p.n(0)}))); };
  c["scalar/int"] = [](const P& p) { static_cast<void>(static_cast<std::int64_t>(ones({p.n(0), p.n(1)}))); };
  c["autograd/assign_grad_dtype"] = [](const P& p) {
    ones({p.n(0)}, {.requires_grad = true}).set_grad(ones({p.n(1)}, {.dtype = DType::f64}));
  };
  c["autograd/deepcopy"] = [](const P& p) {
    Holder holder;
    holder.kept = ones({p.n(0)}, {.requires_grad = true}) * p.n(1);
    holder.clone();
  };
  c["rng/state_dtype"] = [](const P& p) { set_rng_state(zeros({p.n(0)})); };
  c["warn/softmax_dim"] = [](const P& p) { softmax(ones({p.n(0), p.n(1)})); };
  c["warn/float_of_grad"] = [](const P& p) {
    static_cast<void>(static_cast<double>(ones({}, {.requires_grad = true}) * p.n(0)));
  };
  c["warn/dropout2d_rank"] = [](const P& p) { dropout2d(ones({p.n(0), p.n(1)})); };
  c["warn/std_one"] = [](const P& p) { ones({p.n(0)}).std(); };
  c["warn/transpose_T"] = [](const P& p) { ones({p.n(0), p.n(1), p.n(2)}).T(); };
}

struct Range {
  std::int64_t count;
  std::int64_t size() const { return count; }
  std::int64_t get(std::int64_t i) const { return i; }
};

struct One {
  SampleStream<int> start() const {
    return [] { return std::optional<int>(); };
  }
};

void add_data_cases(ErrorCases& c) {
  c["dp/sampler_group"] = [](const P& p) { DistributedSampler(p.n(0)); };
  c["data/persistent"] = [](const P& p) { DataLoader(Range{p.n(0)}, {.persistent_workers = true}); };
  c["data/drop_last"] = [](const P& p) { DataLoader(Range{p.n(0)}, {.drop_last = true}, NoBatching{}); };
  c["data/collate_none"] = [](const P&) { default_collate(std::vector<Tensor>{Tensor()}); };
  c["data/subset_index"] = [](const P& p) {
    Subset(ListDataset<std::int64_t>({p.n(0), p.n(1)}), {p.n(2)}).get(p.n(3));
  };
  c["data/concat_empty"] = [](const P&) { ConcatDataset<int>(std::vector<ConcatDataset<int>::Part>()); };
  c["data/concat_index"] = [](const P& p) {
    using List = ListDataset<std::int64_t>;
    ConcatDataset(List({p.n(0)}), List({p.n(1)})).get(p.n(2));
  };
  c["data/iterable_shuffle"] = [](const P&) { DataLoader(One{}, {.shuffle = true}); };
}

std::vector<Tensor> one_parameter() {
  return {Parameter(ones({1}))};
}

void add_schedule_cases(ErrorCases& c) {
  c["sched/lambda_count"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1)});
    const auto one = [](std::int64_t) { return 1.0; };
    LambdaLR(optimizer, std::vector<EpochFunction>{one, one});
  };
  c["sched/initial_lr"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1)});
    StepLR(optimizer, {.step_size = p.n(2)}, p.n(3));
  };
  c["sched/order_warning"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1)});
    StepLR(optimizer, {.step_size = p.n(2)}).step();
  };
  c["warn/sched_epoch"] = [](const P& p) {
    SGD optimizer(one_parameter(), {.lr = p.x(1)});
    StepLR schedule(optimizer, {.step_size = p.n(2)});
    optimizer.step();
    schedule.step(p.n(3));
  };
  c["clip/nonfinite"] = [](const P& p) {
    const Parameter parameter(ones({p.n(0)}));
    parameter.set_grad(tensor({std::nan("")}));
    clip_grad_norm_({parameter}, p.x(1), 2, true);
  };
}

/// One tensor in a file, read with every tag put to `location`.
void load_on(const char* location) {
  const TempDir folder;
  const std::filesystem::path file = folder.path() / "one.pt";
  StateDict state;
  state.set("x", ones({1}));
  ckpt::save(state, file);
  ckpt::load(file, {.map_location = location});
}

void add_file_cases(ErrorCases& c) {
  c["save/legacy_deserialise_cuda"] = [](const P& p) { load_on(p.s(0).c_str()); };
  c["save/map_unknown"] = c["save/legacy_deserialise_cuda"];
}

}  // namespace

void add_more_error_cases(ErrorCases& cases) {
  add_cuda_cases(cases);
  add_value_cases(cases);
  add_data_cases(cases);
  add_schedule_cases(cases);
  add_file_cases(cases);
}

}  // namespace test
