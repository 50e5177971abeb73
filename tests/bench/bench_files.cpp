#include "tests/bench/bench_files.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "libckpt/bridge.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/backend/threads.h"
#include "libcore/module/module.h"
#include "libcore/optim/adam.h"
#include "libcore/tensor/factory.h"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Of this process and those that it started and that ended.
double processor_seconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(who, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime}) {
      sum += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    }
  }
  return sum;
}

std::uint64_t sum64(core::Bytes bytes) {
  std::uint64_t sums[4] = {};
  std::size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) {
    std::uint64_t words[4];
    std::memcpy(words, bytes.data() + at, sizeof words);
    for (int i = 0; i < 4; ++i) sums[i] += words[i];
  }
  for (; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    sums[0] += word;
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

/// A module with the names and shapes of a state dict.
struct Node : core::ModuleOf<Node> {
  std::map<std::string, std::shared_ptr<Node>> children;
  std::vector<std::pair<std::string, core::Tensor>> tensors;

  void members(core::Members& m) override {
    for (auto& [name, tensor] : tensors) m.parameter(name, tensor);
    for (auto& [name, child] : children) m.child(name, child);
  }
  core::Tensor forward(const core::Tensor& x) { return x; }

  void add(const std::string& key, core::Tensor tensor) {
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos) {
      tensors.emplace_back(key, std::move(tensor));
      return;
    }
    std::shared_ptr<Node>& child = children[key.substr(0, dot)];
    if (child == nullptr) child = std::make_shared<Node>();
    child->add(key.substr(dot + 1), std::move(tensor));
  }
};

bool is_folder(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
}

/// Steps of an optimizer over what of a file is f32, with one thread.
class Training {
 public:
  explicit Training(const core::StateDict& state) : optimizer_(parameters_of(state)) {}

  double step() {
    const auto begin = Clock::now();
    optimizer_.step();
    return since(begin);
  }

 private:
  static std::vector<core::Tensor> parameters_of(const core::StateDict& state) {
    std::vector<core::Tensor> parameters;
    for (const auto& [key, tensor] : state) {
      if (tensor.dtype() != core::DType::f32) continue;
      core::Tensor parameter = tensor;
      parameter.requires_grad_(true);
      parameter.set_grad(core::ones(parameter.sizes()));
      parameters.push_back(std::move(parameter));
    }
    return parameters;
  }

  core::Adam optimizer_;
};

}  // namespace

Sum sum_of(const core::StateDict& state) {
  Sum sum;
  for (const auto& [key, tensor] : state) {
    const core::Tensor host = tensor.cpu().contiguous();
    const std::size_t size = core::byte_size(host.dtype(), static_cast<std::uint64_t>(host.numel())).value_or(0);
    sum.sum64 += sum64({static_cast<const std::byte*>(host.raw_data()), size});
    sum.bytes += size;
  }
  return sum;
}

Timed lazy_load(const std::filesystem::path& file) {
  const auto begin = Clock::now();
  const ckpt::Checkpoint checkpoint = ckpt::open(file, {.residency = ckpt::Residency::mapped});
  const std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(checkpoint.root);
  Timed timed{since(begin)};
  timed.more = ", \"tensors\": " + std::to_string(entries.size());
  return timed;
}

Timed lazy_read_all(const std::filesystem::path& file, unsigned threads) {
  const auto begin = Clock::now();
  const ckpt::Checkpoint checkpoint = ckpt::open(file, {.residency = ckpt::Residency::mapped});
  const std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(checkpoint.root);
  std::vector<std::uint64_t> sums(entries.size());
  ckpt::parallel_for(entries.size(), threads,
                     [&](std::size_t i) { sums[i] = sum64(ckpt::unchecked(*entries[i].entry->bytes).memory()); });
  Timed timed{since(begin)};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    timed.sum.bytes += entries[i].entry->byte_size();
    timed.sum.sum64 += sums[i];
  }
  return timed;
}

Timed load_into(const std::filesystem::path& file, unsigned threads) {
  core::set_num_threads(1);  // threads that wait for more work would take the readers' cores
  Node model;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(ckpt::open(file).root)) {
    model.add(named.name, core::ones(named.entry->shape, {.dtype = named.entry->dtype}));
  }
  const auto begin = Clock::now();
  ckpt::load_into(model, file, {.open = {.threads = threads}});
  Timed timed{since(begin)};
  timed.sum = sum_of(model.state_dict());
  return timed;
}

Timed save(const std::filesystem::path& file, const std::filesystem::path& target, const SaveHow& how) {
  const core::StateDict state = ckpt::load(file);
  ckpt::detail::FileOps plain = ckpt::detail::system_file_ops();
  plain.fsync = [](int fd) { return is_folder(fd) ? 0 : ckpt::detail::system_file_ops().fsync(fd); };
  plain.set_lock = [](int, const struct flock*) { return 0; };
  if (!how.atomic) ckpt::detail::set_file_ops(plain);
  ckpt::SaveOptions options;
  options.durable = how.durable;
  options.threads = how.threads;
  const auto begin = Clock::now();
  ckpt::save(state, target, options);
  Timed timed{since(begin)};
  ckpt::detail::set_file_ops(ckpt::detail::system_file_ops());
  timed.sum = sum_of(state);
  return timed;
}

Timed save_again(const std::filesystem::path& file, const std::filesystem::path& target, unsigned threads) {
  constexpr int kTimes = 40;
  const core::StateDict state = ckpt::load(file);
  ckpt::SaveOptions options;
  options.durable = false;
  options.overwrite = true;
  options.threads = threads;
  Timed timed{1e30};
  double processor = 1e30;
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = Clock::now();
    const double used = processor_seconds();
    ckpt::save(state, target, options);
    timed.seconds = std::min(timed.seconds, since(begin));
    processor = std::min(processor, processor_seconds() - used);
  }
  timed.sum = sum_of(state);
  timed.more = ", \"processor_seconds\": " + std::to_string(processor);
  return timed;
}

Timed save_overlap(const std::filesystem::path& file, const std::filesystem::path& target, unsigned every) {
  constexpr unsigned kRounds = 5;
  core::set_num_threads(1);
  const core::StateDict state = ckpt::load(file);
  Training training(state);
  ckpt::AsyncSaveOptions options;
  options.save.threads = 1;
  std::vector<double> alone;
  std::vector<double> beside;
  ckpt::PendingSave save;
  for (unsigned i = 0; i < every * kRounds; ++i) {
    if (i % every == 0) save = ckpt::save_async(state, target, options);
    const bool writing = !save.done();
    const double seconds = training.step();
    (writing ? beside : alone).push_back(seconds);
  }
  save.wait();
  if (alone.empty() || beside.empty()) throw core::Error(core::ErrorCode::usage, "no step with and without a save");
  std::ranges::sort(alone);
  double sum = 0;
  for (const double seconds : beside) sum += seconds;
  const double usual = alone[alone.size() / 2];
  Timed timed{usual, sum_of(state)};
  char more[96];
  std::snprintf(more, sizeof more, ", \"slowdown\": %.4f, \"steps_beside\": %zu",
                sum / static_cast<double>(beside.size()) / usual, beside.size());
  timed.more = more;
  return timed;
}

void let_copies_settle() {
  std::this_thread::sleep_for(std::chrono::seconds(2));
}

Timed save_in_step(const std::filesystem::path& file, const std::filesystem::path& target) {
  constexpr int kRounds = 7;
  Node model;
  for (const auto& [key, tensor] : ckpt::load(file)) {
    if (!key.starts_with("model.") || tensor.dtype() != core::DType::f32) continue;
    core::Tensor parameter = tensor.clone();
    parameter.requires_grad_(true);
    parameter.set_grad(core::ones(parameter.sizes()));
    model.add(key, std::move(parameter));
  }
  core::Adam adam(model.parameters(), {});
  const auto step_and_save = [&] {
    const auto begin = Clock::now();
    const ckpt::PendingSave save = ckpt::step_and_save_async(target, model, adam);
    const double seconds = since(begin);
    save.wait();
    return seconds;
  };
  adam.step();
  step_and_save();
  let_copies_settle();
  std::vector<double> plain, saving;
  for (int i = 0; i < kRounds; ++i) {
    const auto begin = Clock::now();
    adam.step();
    plain.push_back(since(begin));
    saving.push_back(step_and_save());
  }
  std::ranges::sort(plain);
  std::ranges::sort(saving);
  Timed timed{saving[kRounds / 2] - plain[kRounds / 2], sum_of(model.state_dict())};
  timed.more = ", \"step_seconds\": " + std::to_string(plain[kRounds / 2]);
  return timed;
}

}  // namespace bench
