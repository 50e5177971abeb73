// Saves in the background of one rank: what is saved is what was there at the call, whatever is done right behind it,
// and the program sees nothing of the process that keeps it.
#include <gmock/gmock.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libckpt/bridge/detail/frozen_memory.h"
#include "libckpt/ckpt.h"
#include "libckpt/dist.h"
#include "libcore/core.h"
#include "tests/support/forbidden_call.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using ckpt::FrozenMemory;
using core::Tensor;

constexpr std::int64_t kLong = std::int64_t{1} << 21;  // floats of 8 MiB; two are more than what the call copies

void expect_all(const fs::path& path, const std::string& name, float value) {
  const core::StateDict saved = ckpt::to_state_dict(ckpt::dist::load(path).root.as_dict());
  const Tensor* tensor = saved.find(name);
  ASSERT_NE(tensor, nullptr) << name;
  EXPECT_EQ(core::min(*tensor).item<float>(), value) << name;
  EXPECT_EQ(core::max(*tensor).item<float>(), value) << name;
}

ckpt::dist::SaveOptions quick() {
  ckpt::dist::SaveOptions options;
  options.overwrite = true;
  options.durable = false;
  return options;
}

/// Four tensors of 1, 2, 3 and 4, and a short one of 7.
core::StateDict some_state() {
  core::StateDict state;
  for (int i = 0; i < 4; ++i) state.set("w" + std::to_string(i), core::full({kLong}, i + 1.0));
  state.set("few", core::full({4}, 7.0));
  return state;
}

/// Saves while `change` is done to each tensor behind the call, and looks whether the values are those of before.
void expect_saved(const std::function<void(const Tensor&)>& change, bool copy_in_call = false) {
  const test::TempDir dir;
  const core::NoGradGuard no_history;
  core::StateDict state = some_state();
  ckpt::dist::SaveOptions options = quick();
  options.copy_in_call = copy_in_call;
  const ckpt::dist::PendingSave save = ckpt::dist::save_async(state, dir.path() / "run", options);
  for (int i = 3; i >= 0; --i) change(*state.find("w" + std::to_string(i)));  // first what is copied last
  state.find("few")->zero_();
  state = core::StateDict();
  save.wait();
  for (int i = 0; i < 4; ++i) expect_all(dir.path() / "run", "w" + std::to_string(i), static_cast<float>(i + 1));
  expect_all(dir.path() / "run", "few", 7);
}

void fill(const Tensor& x) {
  auto* values = x.mutable_data<float>();
  std::fill(values, values + x.numel(), 9.0F);
}

TEST(DistBackground, ValuesAreThoseOfTheCallWhateverIsDoneBehindIt) {
  expect_saved([](const Tensor& x) { x.add_(1); });
  expect_saved([](const Tensor& x) { x.copy_(core::zeros_like(x)); });
  expect_saved([](const Tensor& x) { x.view({2, kLong / 2}).t().zero_(); });
  expect_saved([](const Tensor& x) {
    x.set_grad(core::ones_like(x));
    core::SGD({x}, {.lr = 1}).step();
  });
  expect_saved([](const Tensor&) {});  // and all are gone
  expect_saved(fill, true);
}

TEST(DistBackground, APointerOfBeforeTheCallMayBeWrittenBy) {
  const test::TempDir dir;
  std::vector<float> lent(2 * kLong, 3);
  core::StateDict state;
  state.set("lent", core::from_blob(lent.data(), {2 * kLong}, core::DType::f32));
  const ckpt::dist::PendingSave save = ckpt::dist::save_async(state, dir.path() / "run", quick());
  lent.assign(lent.size(), 4);
  save.wait_copied();
  lent.assign(lent.size(), 5);
  save.wait();
  expect_all(dir.path() / "run", "lent", 3);
}

TEST(DistBackground, SharedMemoryIsCopiedInTheCall) {
  const test::TempDir dir;
  constexpr std::size_t kBytes = 2 * kLong * sizeof(float);
  void* shared = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void* hidden = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_TRUE(shared != MAP_FAILED && hidden != MAP_FAILED);
  ASSERT_EQ(::madvise(hidden, kBytes, MADV_DONTFORK), 0);
  core::StateDict state = some_state();
  state.set("shared", core::from_blob(shared, {2 * kLong}, core::DType::f32));
  state.set("hidden", core::from_blob(hidden, {2 * kLong}, core::DType::f32));
  for (const char* name : {"shared", "hidden"}) state.find(name)->fill_(3);
  const ckpt::dist::PendingSave save = ckpt::dist::save_async(state, dir.path() / "run", quick());
  for (const char* name : {"shared", "hidden", "w3"}) fill(*state.find(name));
  save.wait();
  state = core::StateDict();
  expect_all(dir.path() / "run", "shared", 3);
  expect_all(dir.path() / "run", "hidden", 3);
  expect_all(dir.path() / "run", "w3", 4);
  ::munmap(shared, kBytes);
  ::munmap(hidden, kBytes);
}

TEST(DistBackground, ManySavesInARowEachHaveTheirOwnValues) {
  const test::TempDir dir;
  core::StateDict state;
  const Tensor weight = core::full({2 * kLong}, 0.0);
  state.set("weight", weight);
  std::vector<ckpt::dist::PendingSave> saves;
  for (int i = 0; i < 6; ++i) {
    saves.push_back(ckpt::dist::save_async(state, dir.path() / std::to_string(i), quick()));
    weight.add_(1);
  }
  for (const auto& save : saves) save.wait();
  for (int i = 0; i < 6; ++i) expect_all(dir.path() / std::to_string(i), "weight", static_cast<float>(i));
}

TEST(DistBackground, SeveralThreadsReadAndWriteMeanwhile) {
  std::vector<std::thread> threads;
  std::atomic<bool> is_over = false;
  std::vector<int> own(1 << 20);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (std::size_t at = 0; !is_over; at = (at + 3) % own.size()) ++own[at - at % 3 + static_cast<std::size_t>(i)];
    });
  }
  for (int round = 0; round < 4; ++round) expect_saved(fill);
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(DistBackground, WhatCannotBeWrittenIsAnError) {
  const test::TempDir dir;
  core::StateDict state = some_state();
  ckpt::dist::SaveOptions options = quick();
  options.overwrite = false;
  ckpt::dist::save(state, dir.path() / "run", options);
  const ckpt::dist::PendingSave save = ckpt::dist::save_async(state, dir.path() / "run", options);
  EXPECT_THROW(save.wait(), core::Error);
}

// What the program sees of the process that keeps the memory.

std::atomic<int> ended_children = 0;

TEST(DistBackground, TheProgramSeesNoChild) {
  struct sigaction counts {
  }, before{};
  counts.sa_handler = [](int) { ++ended_children; };
  ASSERT_EQ(::sigaction(SIGCHLD, &counts, &before), 0);
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    while (!is_over) EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child of the library was reaped";
  });
  expect_saved(fill);
  is_over = true;
  waits.join();
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1) << "a zombie is left";
  EXPECT_EQ(errno, ECHILD);
  EXPECT_EQ(ended_children, 0);
  ::sigaction(SIGCHLD, &before, nullptr);
}

/// The letter after the name in /proc/PID/stat; 0: there is no such process.
char state_of(int process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(stat, text);
  return text.empty() ? '\0' : text.at(text.rfind(')') + 2);
}

bool is_gone(int process) {
  for (int wait = 0; wait < 500; ++wait) {
    const char state = state_of(process);
    if (state == '\0' || state == 'Z') return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(FrozenMemory, HoldsWhatWasThereAndHasNoDescriptorOfItsOwn) {
  std::vector<std::byte> memory(1 << 20, std::byte{1});
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const std::unique_ptr<FrozenMemory> frozen = FrozenMemory::make();
  ASSERT_NE(frozen, nullptr);
  memory.assign(memory.size(), std::byte{2});
  ASSERT_TRUE(frozen->holds(memory.data(), memory.size()));
  EXPECT_FALSE(frozen->holds(memory.data(), std::size_t{1} << 46));
  EXPECT_FALSE(frozen->holds(nullptr, 1));
  std::vector<std::byte> copy(memory.size());
  frozen->read(memory.data(), copy.data(), copy.size());
  EXPECT_EQ(copy, std::vector<std::byte>(memory.size(), std::byte{1}));
  ::close(pipe[1]);
  char next = 0;
  EXPECT_EQ(::read(pipe[0], &next, 1), 0) << "somebody holds the other end open";
  ::close(pipe[0]);
}

TEST(FrozenMemory, KeepsNoDescriptorAndIsTheFirstToBeKilled) {
  const std::unique_ptr<FrozenMemory> frozen = FrozenMemory::make();
  ASSERT_NE(frozen, nullptr);
  const fs::path process = "/proc/" + std::to_string(frozen->process());
  int tries = 500;
  while (!fs::is_empty(process / "fd") && --tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(fs::is_empty(process / "fd")) << "a port of a killed parent stays taken";
  int score = 0;
  std::ifstream(process / "oom_score_adj") >> score;
  EXPECT_EQ(score, 1000);
}

/// A process of this number that is no child of this one; false where that is for root alone.
bool take_number(int number) {
  const pid_t between = ::fork();
  if (between == 0) {
    std::array<int, 1> wanted{number};
    clone_args how{};
    how.set_tid = reinterpret_cast<std::uintptr_t>(wanted.data());
    how.set_tid_size = 1;
    const long process = ::syscall(SYS_clone3, &how, sizeof how);
    if (process == 0) ::sleep(60);
    ::_exit(process == number ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(between, &status, 0) == between && status == 0;
}

TEST(FrozenMemory, EndsNoOtherProcessThatHasItsNumber) {
  std::unique_ptr<FrozenMemory> frozen = FrozenMemory::make();
  ASSERT_NE(frozen, nullptr);
  const int number = frozen->process();
  ::kill(number, SIGKILL);
  ASSERT_EQ(::waitpid(-1, nullptr, __WALL), number);
  if (!take_number(number)) GTEST_SKIP() << "the system lets nobody choose a process's number";
  frozen = nullptr;
  EXPECT_EQ(::kill(number, 0), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_NE(state_of(number), '\0');
  EXPECT_NE(state_of(number), 'Z');
  ::kill(number, SIGKILL);
}

TEST(FrozenMemory, IsNotForALittleOfALargeProcess) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  EXPECT_FALSE(FrozenMemory::is_sooner_than_copying(8 * kMiB));
  EXPECT_TRUE(FrozenMemory::is_sooner_than_copying(128 * kMiB));
  const std::vector<char> other(400 * kMiB, 1);
  EXPECT_FALSE(FrozenMemory::is_sooner_than_copying(32 * kMiB)) << other.back();
  EXPECT_TRUE(FrozenMemory::is_sooner_than_copying(400 * kMiB));
}

TEST(FrozenMemory, RunsNoHandlerAndEndsWithItsObject) {
  std::unique_ptr<FrozenMemory> frozen = FrozenMemory::make();
  ASSERT_NE(frozen, nullptr);
  const int process = frozen->process();
  ::kill(process, SIGTERM);
  ::kill(process, SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::byte copy{};
  frozen->read(&frozen, &copy, 1);
  EXPECT_NE(state_of(process), 'Z');
  frozen = nullptr;
  EXPECT_EQ(state_of(process), '\0');
}

TEST(FrozenMemory, AnEndedProcessIsAnError) {
  const std::unique_ptr<FrozenMemory> frozen = FrozenMemory::make();
  ASSERT_NE(frozen, nullptr);
  ::kill(frozen->process(), SIGKILL);
  ASSERT_TRUE(is_gone(frozen->process()));
  std::byte copy{};
  EXPECT_THAT(
      [&] { frozen->read(&frozen, &copy, 1); },
      testing::Throws<core::Error>(testing::Property(&core::Error::what, testing::HasSubstr("short of memory"))));
}

TEST(FrozenMemory, EndsWithAKilledParent) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const std::unique_ptr<FrozenMemory> frozen = FrozenMemory::make();
    const int process = frozen == nullptr ? -1 : frozen->process();
    if (::write(pipe[1], &process, sizeof process) != sizeof process) ::_exit(1);
    for (;;) ::pause();
  }
  int process = -1;
  EXPECT_EQ(::read(pipe[0], &process, sizeof process), static_cast<ssize_t>(sizeof process));
  const char state = process > 0 ? state_of(process) : '\0';
  EXPECT_FALSE(state == '\0' || state == 'Z');
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(is_gone(process));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

// Systems that forbid it.

/// Runs `body` in a thread where this system call gives `error`.
void run_forbidding(unsigned call, int error, const std::function<void()>& body) {
  std::thread thread([&] {
    test::forbid_call(call, error);
    body();
  });
  thread.join();
}

TEST(FrozenMemory, WhereTheSystemForbidsItTheCallCopies) {
  for (const auto& [call, error] : std::vector<std::pair<unsigned, int>>{
           {SYS_clone, EAGAIN}, {SYS_clone, ENOMEM}, {SYS_clone, EPERM}, {SYS_pread64, EPERM}}) {
    run_forbidding(call, error, [] { EXPECT_EQ(FrozenMemory::make(), nullptr); });
    if (call == SYS_clone) run_forbidding(call, error, [] { expect_saved(fill); });
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1) << "a zombie is left";
}

/// As Yama has it: nobody may be looked into. Of this process alone, while it is not root.
TEST(FrozenMemory, WhereMemoryMayNotBeReadTheCallCopies) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::prctl(PR_SET_DUMPABLE, 0) != 0 || (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0)) ::_exit(2);
    ::_exit(FrozenMemory::make() == nullptr ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
