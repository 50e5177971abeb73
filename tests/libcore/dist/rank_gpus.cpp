#include "tests/libcore/dist/rank_gpus.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/nccl_rank.h"
#include "libcore/base/text.h"
#include "libcore/dist/launch.h"
#include "tests/libcore/backend/cuda_fake.h"
#include "tests/libcore/dist/nccl_ranks_fake.h"
#include "tests/libcore/dist/ranks.h"

namespace test {
namespace {

FakeNcclRanks* nccl_of_this_rank = nullptr;

/// Of "2,1" what is said of this rank; what is said once is said of all.
std::string said_of_this_rank(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return "";
  const std::vector<std::string_view> parts = core::split(text, ',');
  const char* rank = std::getenv("RANK");
  const std::size_t own = rank == nullptr ? 0 : static_cast<std::size_t>(std::atoi(rank));
  return std::string(parts[own < parts.size() ? own : 0]);
}

FakeOptions options_here() {
  const std::string count = said_of_this_rank("CKPT_FAKE_GPUS");
  const char* streams = std::getenv("CKPT_FAKE_STREAMS");
  const bool is_lazy = streams != nullptr && std::string(streams) == "lazy";
  const char* ranks = std::getenv("WORLD_SIZE");  // which may be no number
  const int number = std::atoi(!count.empty() ? count.c_str() : ranks != nullptr ? ranks : "1");
  return {.devices = count.empty() && number < 1 ? 1 : number, .runs_at_once = !is_lazy, .runs_when_asked = is_lazy};
}

/// Without what is needed between processes.
core::gpu::NcclApi old_version() {
  core::gpu::NcclApi api{};
  api.version = [](int* version) { return (*version = 21304, 0); };
  return api;
}

}  // namespace

struct RankGpus::Simulated {
  Simulated() : driver(options_here()), nccl(driver) {
    const std::string library = said_of_this_rank("CKPT_FAKE_NCCL");
    if (library == "old") old.emplace(old_version());
    if (library != "none") driver.set_nccl(old ? &*old : &nccl.nccl());
    core::set_cuda_backends(core::gpu::discover(driver.api(), core::logical_op_tables(), {}));
    nccl_of_this_rank = &nccl;
  }
  ~Simulated() { core::set_cuda_backends({}); }
  FakeDriver driver;
  FakeNcclRanks nccl;
  std::optional<core::gpu::Nccl> old;
};

RankGpus::RankGpus() {
  const bool is_simulated = std::getenv("CKPT_FAKE_GPUS") != nullptr;
  if (default_backend() != "nccl" && !is_simulated) return;
  if (!is_simulated && core::nccl::why_no_ranks().empty()) return;
  simulated_ = std::make_unique<Simulated>();
}

RankGpus::~RankGpus() {
  // A rank that ends while it waits for another has threads that use them.
  static_cast<void>(simulated_.release());
}

core::Device rank_device() {
  if (default_backend() != "nccl") return core::DeviceType::cpu;
  const auto facts = core::distributed::launch_facts();
  const auto place = facts.local_rank.value_or(facts.rank.value_or(0)) % std::max(core::cuda::device_count(), 1);
  return {core::DeviceType::cuda, static_cast<int>(place)};
}

bool may_run_on_these_gpus() {
  const char* wanted = std::getenv("CKPT_GOLDEN_GPU");
  return wanted == nullptr || std::string(wanted) != "1" || nccl_of_this_rank == nullptr;
}
bool has_gpus_for(int ranks) {
  if (default_backend() != "nccl" || core::cuda::device_count() >= ranks) return true;
  return core::cuda::device_name(0).starts_with("Simulated");
}

int nccl_communicators_alive() {
  return nccl_of_this_rank == nullptr ? 0 : nccl_of_this_rank->alive.load();
}
int nccl_communicators_aborted() {
  return nccl_of_this_rank == nullptr ? 0 : nccl_of_this_rank->aborted.load();
}
void let_nccl_see_ends() {
  if (nccl_of_this_rank != nullptr) nccl_of_this_rank->sees_ends = true;
}

}  // namespace test
