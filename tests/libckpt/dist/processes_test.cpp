// Saves and loads by ranks that are processes, over Gloo: this program starts itself as the ranks.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "libckpt/ckpt.h"
#include "libckpt/dist.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/init.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/loss.h"
#include "libcore/optim/adam.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/libckpt/dist/samples.h"
#include "tests/libcore/dist/ranks.h"
#include "tests/support/temp_dir.h"

namespace {

namespace dist = core::distributed;
namespace fs = std::filesystem;
using testing::HasSubstr;

void save_pieces(const fs::path& path) {
  int rank = dist::get_rank();
  int ranks = dist::get_world_size();
  ckpt::dist::SaveOptions options;
  options.pieces = test::sample_pieces(rank, ranks);
  options.durable = false;
  ckpt::dist::save(test::sample_part(rank, ranks, 1), path, options);
}

void load_pieces(const fs::path& path) {
  int rank = dist::get_rank();
  int ranks = dist::get_world_size();
  ckpt::Value mine = ckpt::dist::load(path, test::sample_pieces(rank, ranks));
  std::string difference = test::tree_difference(test::sample_part(rank, ranks, 1), mine);
  if (!difference.empty()) throw std::runtime_error(difference);
}

void save_in_background(const fs::path& path) {
  dist::Group own = dist::new_group();
  int rank = dist::get_rank();
  core::StateDict state;
  core::Tensor weight = core::full({6}, 5.0);
  state.set("weight", weight);
  ckpt::dist::SaveOptions options;
  options.group = own;
  ckpt::dist::prepare_save_async(state, options);
  ckpt::dist::prepare_save_async(state, options);  // once more changes nothing
  ckpt::dist::PendingSave save = ckpt::dist::save_async(state, path, options);
  weight.fill_(7.0);  // what is saved is what was there at the call
  dist::barrier();
  save.wait();
  if (rank == 0 && !save.done()) throw std::runtime_error("not done");
  options.overwrite = true;
  for (double value : {2.0, 3.0, 4.0}) {  // each takes the memory of the one before
    weight.fill_(value);
    save = ckpt::dist::save_async(state, path.string() + "-kept", options);
    weight.fill_(7.0);
  }
  save.wait();
  options.copy_in_call = true;
  weight.fill_(8.0);
  save = ckpt::dist::save_async(state, path.string() + "-copied-in-call", options);
  weight.fill_(7.0);
  save.wait();
}

/// Rank 1 has no memory for a copy, in the call or behind it.
void save_without_memory(const fs::path& path) {
  core::StateDict state;
  state.set("weight", core::full({64 << 20}, 1.0));
  ckpt::dist::SaveOptions options;
  options.group = dist::new_group();
  dist::barrier();
  rlimit unlimited{};
  ::getrlimit(RLIMIT_AS, &unlimited);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limited{pages * 4096 + (150U << 20), unlimited.rlim_max};  // the copy wants 256 MiB
  if (dist::get_rank() == 1) ::setrlimit(RLIMIT_AS, &limited);
  for (bool in_call : {false, true}) {
    options.copy_in_call = in_call;
    const ckpt::dist::PendingSave save = ckpt::dist::save_async(state, path, options);
    save.wait_copied();
    try {
      save.wait();
      test::say("saved ");
    } catch (const core::Error& error) {
      test::say(error.message() + " ");
    }
  }
  ::setrlimit(RLIMIT_AS, &unlimited);
}

/// One rank cannot write: its folder is not that of rank 0.
void save_elsewhere(const fs::path& path) {
  fs::path mine = dist::get_rank() == 1 ? path.parent_path() / "other" / "run" : path;
  fs::create_directories(mine.parent_path());
  save_pieces(mine);
}

struct Noisy : core::ModuleOf<Noisy> {
  core::Linear fc1{3, 8};
  core::Dropout drop{0.5};
  core::Linear fc2{8, 1};
  void members(core::Members& m) override { m.child("fc1", fc1).child("drop", drop).child("fc2", fc2); }
  core::Tensor forward(const core::Tensor& x) { return fc2(drop(fc1(x))); }
};

/// Losses of `steps` steps on random data, all drawn from the default generator.
std::string train(Noisy& model, core::Optimizer& optimizer, int steps) {
  std::string losses;
  for (int i = 0; i < steps; ++i) {
    core::Tensor x = core::randn({5, 3});
    core::Tensor loss = core::mse_loss(model(x), core::ones({5, 1}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses += std::to_string(loss.item<float>()) + " ";
  }
  return losses;
}

void save_run(const fs::path& path) {
  core::manual_seed(3);
  Noisy model;
  core::Adam optimizer(model.parameters(), {.lr = 0.01});
  train(model, optimizer, 4);
  core::manual_seed(static_cast<std::uint64_t>(50 + dist::get_rank()));  // each rank its own
  ckpt::dist::save_training(path, model, optimizer, {.epoch = 2, .step = 4});
  test::say(train(model, optimizer, 3));
}

void resume_run(const fs::path& path) {
  core::manual_seed(99);
  Noisy model;
  core::Adam optimizer(model.parameters(), {.lr = 0.5});
  ckpt::TrainingProgress progress = ckpt::dist::load_training(path, model, optimizer);
  if (progress.epoch != 2 || progress.step != 4) throw std::runtime_error("another progress");
  test::say(train(model, optimizer, 3));
}

int run_rank(const std::string& role, const fs::path& path) {
  return dist::run_main([&] {
    dist::init_process_group({.timeout = std::chrono::seconds(role == "hangs" ? 3 : 60)});
    if (role == "save") save_pieces(path);
    if (role == "load") load_pieces(path);
    if (role == "train") save_run(path);
    if (role == "resume") resume_run(path);
    if (role == "async") save_in_background(path);
    if (role == "no memory") save_without_memory(path);
    if (role == "elsewhere") save_elsewhere(path);
    if (role == "hangs" && dist::get_rank() == 1) ::sleep(8);
    if (role == "hangs") save_pieces(path);
    if (role == "dies" && dist::get_rank() == 1) ::_exit(7);
    if (role == "dies") save_pieces(path);
    return 0;
  });
}

std::vector<test::Ending> run(const std::string& role, int size, const fs::path& path) {
  return test::run_ranks({.role = role, .arguments = {path.string()}, .size = size});
}

void expect_good(const std::vector<test::Ending>& endings, const std::string& what) {
  for (const test::Ending& ending : endings) EXPECT_EQ(ending.status, 0) << what << ": " << ending.errors;
}

TEST(DistProcesses, SavedByAnyNumberReadByAnyNumber) {
  if (!dist::is_gloo_available()) GTEST_SKIP() << "no Gloo";
  test::TempDir dir;
  for (int writers = 1; writers <= 5; ++writers) {
    fs::path path = dir.path() / std::to_string(writers);
    expect_good(run("save", writers, path), "save by " + std::to_string(writers));
    EXPECT_EQ(test::tree_difference(test::sample_whole(1), ckpt::open(path).root), "") << writers;
    for (int readers = 1; readers <= 5; ++readers) {
      expect_good(run("load", readers, path), std::to_string(writers) + " -> " + std::to_string(readers));
    }
  }
}

TEST(DistProcesses, ATrainingGoesOnWithAnotherNumberOfRanksEachWithItsGenerator) {
  if (!dist::is_gloo_available()) GTEST_SKIP() << "no Gloo";
  test::TempDir dir;
  fs::path path = dir.path() / "run";
  std::vector<test::Ending> saved = run("train", 2, path);
  expect_good(saved, "train");
  EXPECT_NE(saved[0].report, saved[1].report);
  for (int readers : {1, 2, 3}) {
    std::vector<test::Ending> resumed = run("resume", readers, path);
    expect_good(resumed, "resume on " + std::to_string(readers));
    for (std::size_t rank = 0; rank < std::min<std::size_t>(resumed.size(), 2); ++rank) {
      EXPECT_EQ(resumed[rank].report, saved[rank].report) << "rank " << rank << " of " << readers;
    }
  }
}

TEST(DistProcesses, ASaveInTheBackgroundHasTheValuesOfTheCall) {
  if (!dist::is_gloo_available()) GTEST_SKIP() << "no Gloo";
  test::TempDir dir;
  expect_good(run("async", 2, dir.path() / "run"), "async");
  ckpt::Checkpoint saved = ckpt::open(dir.path() / "run");
  EXPECT_EQ(ckpt::read_all(*saved.root.find("weight")->as_entry().bytes),
            ckpt::read_all(*test::bytes_of(std::vector<float>(6, 5.0F))));
  ckpt::Checkpoint kept = ckpt::open(dir.path() / "run-kept");
  EXPECT_EQ(ckpt::read_all(*kept.root.find("weight")->as_entry().bytes),
            ckpt::read_all(*test::bytes_of(std::vector<float>(6, 4.0F))));
  ckpt::Checkpoint later = ckpt::open(dir.path() / "run-copied-in-call");
  EXPECT_EQ(ckpt::read_all(*later.root.find("weight")->as_entry().bytes),
            ckpt::read_all(*test::bytes_of(std::vector<float>(6, 8.0F))));
}

TEST(DistProcesses, ARankWithoutMemoryForItsCopyIsNamedOnAll) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes memory without limit";
#endif
  if (!dist::is_gloo_available()) GTEST_SKIP() << "no Gloo";
  test::TempDir dir;
  const std::vector<test::Ending> endings = run("no memory", 2, dir.path() / "run");
  expect_good(endings, "no memory");
  const std::string said = "rank 1: cpu: out of memory: tried to allocate 256 MiB for the copy";
  for (const test::Ending& ending : endings) {
    EXPECT_THAT(ending.report, testing::ContainsRegex(said + ".*" + said));
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(DistProcesses, ARankThatSeesAnotherFolderIsNamedOnAll) {
  if (!dist::is_gloo_available()) GTEST_SKIP() << "no Gloo";
  test::TempDir dir;
  for (const test::Ending& ending : run("elsewhere", 3, dir.path() / "run")) {
    EXPECT_EQ(ending.status, 1);
    EXPECT_THAT(ending.errors, HasSubstr("rank 1: does not see"));
    EXPECT_THAT(ending.errors, HasSubstr("is it on a shared file system?"));
  }
  EXPECT_FALSE(fs::exists(dir.path() / "run"));
}

TEST(DistProcesses, ARankThatHangsEndsTheSaveOfAllAtTheTimeout) {
  if (!dist::is_gloo_available()) GTEST_SKIP() << "no Gloo";
  test::TempDir dir;
  for (const test::Ending& ending : run("hangs", 2, dir.path() / "run")) {
    EXPECT_EQ(ending.status, 1) << ending.errors;
    EXPECT_FALSE(ending.timed_out);
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(DistProcesses, ARankThatDiesEndsTheSaveOfAll) {
  if (!dist::is_gloo_available()) GTEST_SKIP() << "no Gloo";
  test::TempDir dir;
  std::vector<test::Ending> endings = run("dies", 3, dir.path() / "run");
  EXPECT_EQ(endings[1].status, 7);
  for (int rank : {0, 2}) {
    EXPECT_EQ(endings[static_cast<std::size_t>(rank)].status, 1);
    EXPECT_THAT(endings[static_cast<std::size_t>(rank)].errors, HasSubstr("rank 1"));
    EXPECT_FALSE(endings[static_cast<std::size_t>(rank)].timed_out);
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

}  // namespace

int main(int argc, char** argv) {
  std::string role = test::rank_role(argc, argv);
  if (!role.empty()) return run_rank(role, test::rank_argument(argc, argv, 0));
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
