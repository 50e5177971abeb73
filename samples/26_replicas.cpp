// What becomes of a replica behind a forward, and what that costs: lost writes, copied parameters, memory that gathers
// on the first device, and the warning for devices of unlike size. Notes at the end of tutorial 004. For two devices.
#include "libcore/backend/logical_devices.h"
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using core::Tensor;
using samples::print;

struct Counting : core::ModuleOf<Counting> {
  core::Linear fc{3, 5};
  std::int64_t calls = 0;              // an attribute: a replica's is its own
  Tensor rows = core::zeros({1});      // a buffer: replica 0 has the model's memory, the others copies
  Tensor replaced = core::zeros({1});  // a buffer that forward puts another tensor in the place of
  void members(core::Members& m) override { m.child("fc", fc).buffer("rows", rows).buffer("replaced", replaced); }
  Tensor forward(const Tensor& x) {
    core::NoGradGuard no_grad;
    ++calls;
    rows.add_(static_cast<double>(x.size(0)));
    replaced = replaced + 1;
    return fc(x);
  }
};

void lost_writes() {
  Counting net;
  net.to("cuda:0");
  core::DataParallel parallel(net);
  for (int i = 0; i < 3; ++i) parallel(core::ones({8, 3}));
  print("three batches of 8 rows, two replicas each:");
  print("  calls counted in an attribute:", net.calls, "(each replica counted in its own copy)");
  print("  rows counted in a buffer:", net.rows.item<double>(), "(those of replica 0, which writes into the model's)");
  print("  a buffer replaced in forward:", net.replaced.item<double>(), "(each replica replaced its own)");
  for (int i = 0; i < 3; ++i) net(core::ones({8, 3}, {.device = "cuda:0"}));
  print("the same without the wrapper:", net.calls, net.rows.item<double>(), net.replaced.item<double>());
}

/// A net whose output is large, and its loss, inside or outside.
struct Wide : core::ModuleOf<Wide> {
  core::Linear fc{64, 4096};
  void members(core::Members& m) override { m.child("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(x); }
};
struct WideWithLoss : core::ModuleOf<WideWithLoss> {
  Wide net;
  void members(core::Members& m) override { m.child("net", net); }
  Tensor forward(const Tensor& x, const Tensor& y) { return core::mse_loss(net(x), y); }
};

void reset_peaks() {
  for (core::Device device : core::try_all_gpus()) core::cuda::reset_peak_memory_stats(device);
}

void print_peaks(const char* title) {
  auto peak = [](core::Device device) { return core::cuda::max_memory_allocated(device) >> 20; };
  bool is_unequal = peak("cuda:0") > 2 * peak("cuda:1");
  print(title, "cuda:0", peak("cuda:0"), "MiB, cuda:1", peak("cuda:1"), is_unequal ? "MiB: unequal" : "MiB: balanced");
}

void memory_imbalance() {
  print("peak memory of a step with 512 rows of 4096 outputs:");
  {
    core::DataParallel parallel(Wide().to("cuda:0"));
    Tensor x = core::randn({512, 64}), y = core::randn({512, 4096}).to("cuda:0");
    core::mse_loss(parallel(x), y).backward();
    print_peaks("  loss of the gathered output:");
  }
  reset_peaks();
  {
    core::DataParallel parallel(WideWithLoss().to("cuda:0"));
    Tensor x = core::randn({512, 64}), y = core::randn({512, 4096});
    parallel(x, y).mean().backward();  // one loss a device comes back
    print_peaks("  loss inside forward:");
  }
}

void copied_parameters() {
  core::DataParallel parallel(core::Linear(1024, 1024).to("cuda:0"));
  core::SGD optimizer(parallel.parameters(), {.lr = 0.1});
  auto copies = [&] {
    std::int64_t before = core::cuda::memory_stats("cuda:1").at("allocated_bytes.all.allocated");
    parallel(core::ones({2, 1024})).sum().backward();
    return (core::cuda::memory_stats("cuda:1").at("allocated_bytes.all.allocated") - before) >> 10;
  };
  print("a net of 4100 KiB: KiB allocated on cuda:1 for a forward and backward");
  print("  first step:", copies());
  print("  again, parameters unchanged:", copies(), "(copies are kept until the parameters change)");
  optimizer.step();
  print("  after optimizer.step():", copies());
}

void unlike_devices() {
  core::set_logical_devices(
      std::vector<core::LogicalDevice>{{.total_memory = 24ULL << 30}, {.total_memory = 8ULL << 30}});
  print("devices of 24 and 8 GiB:");
  core::DataParallel parallel(core::Linear(3, 5));
}

void run(samples::Program&) {
  if (core::cuda::device_count() != 2) {
    throw core::Error(core::ErrorCode::device,
                      "this needs two devices; CORE_LOGICAL_DEVICES=host:2 stands in for them");
  }
  core::set_warning_handler([](const std::string& text) { print("UserWarning:", text); });
  core::manual_seed(0);
  lost_writes();
  copied_parameters();
  reset_peaks();
  memory_imbalance();
  unlike_devices();
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv, {.about = "What becomes of replicas, and what they cost"}, run);
}
