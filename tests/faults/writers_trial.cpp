// Processes that save and read the same file at once, and a loop that saves and is killed.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <random>
#include <stdexcept>

#include "libckpt/analyze/digest.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "tests/faults/trials.h"
#include "tests/support/temp_dir.h"

namespace test::faults {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kModels = 16;  // different contents that are written in turn

std::vector<ckpt::Hash128> digests_of_models() {
  std::vector<ckpt::Hash128> digests;
  for (unsigned i = 0; i < kModels; ++i) digests.push_back(ckpt::digest(sample_model(i).root, {.threads = 1}).model);
  return digests;
}

/// Which of the models the file holds; -1 when it is none of them.
int model_in(const fs::path& path, const std::vector<ckpt::Hash128>& digests) {
  ckpt::Checkpoint checkpoint = ckpt::open(path, {.check_hashes = true, .threads = 1});
  ckpt::Hash128 found = ckpt::digest(checkpoint.root, {.threads = 1}).model;
  for (unsigned i = 0; i < kModels; ++i) {
    if (digests[i] == found) return static_cast<int>(i);
  }
  return -1;
}

pid_t start_child(const std::function<void()>& body) {
  pid_t child = ::fork();
  if (child != 0) return child;
  try {
    body();
  } catch (...) {
    ::_exit(9);
  }
  ::_exit(0);
}

/// Saves step 1, 2, ... and says each to the pipe once it is saved.
void train(const fs::path& path, int pipe) {
  for (unsigned step = 1;; ++step) {
    ckpt::Checkpoint model = sample_model(step % kModels);
    model.metadata = {{"step", std::to_string(step)}};
    ckpt::save(model, path, {.threads = 1});
    if (::write(pipe, &step, sizeof step) != sizeof step) ::_exit(1);
    ::usleep(200);
  }
}

/// The last step that the loop said.
unsigned last_said(int pipe) {
  unsigned step = 0;
  for (unsigned next = 0; ::read(pipe, &next, sizeof next) == sizeof next;) step = next;
  return step;
}

std::string resume(const fs::path& path, unsigned said, const std::vector<ckpt::Hash128>& digests) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    return said == 0 ? "" : "step " + std::to_string(said) + " was said, nothing is there";
  ckpt::Checkpoint checkpoint = ckpt::open(path, {.check_hashes = true, .threads = 1});
  unsigned step = 0;
  for (const auto& [key, value] : checkpoint.metadata) step = key == "step" ? std::stoul(value) : step;
  if (step < said) return "step " + std::to_string(said) + " was said, " + std::to_string(step) + " is there";
  if (step > said + 1) return "a step is there that nobody saved";
  if (model_in(path, digests) != static_cast<int>(step % kModels)) return "other weights than those of its step";
  return "";
}

/// What the crowd's processes count together.
struct Counters {
  std::atomic<unsigned long> saves;
  std::atomic<unsigned long> busy;
  std::atomic<unsigned long> reads;
  std::atomic<unsigned long> bad_reads;
  std::atomic<unsigned long> bad_saves;
};

void write_in_crowd(Counters& counters, const fs::path& path, unsigned long wanted, unsigned writer) {
  for (unsigned turn = 0; counters.saves < wanted; ++turn) {
    try {
      ckpt::save(sample_model((writer * 5 + turn) % kModels), path, {.durable = false, .threads = 1});
      ++counters.saves;
    } catch (const core::Error& error) {
      std::string text = error.what();
      bool told = text.find("is writing this file") != std::string::npos ||
                  text.find("another program") != std::string::npos ||
                  text.find("keep writing this file") != std::string::npos;
      ++(told ? counters.busy : counters.bad_saves);
    }
  }
}

void read_in_crowd(Counters& counters, const fs::path& path, unsigned long wanted,
                   const std::vector<ckpt::Hash128>& digests) {
  while (counters.saves < wanted) {
    try {
      if (model_in(path, digests) < 0) ++counters.bad_reads;
    } catch (const core::Error&) {
      ++counters.bad_reads;
    }
    ++counters.reads;
  }
}

}  // namespace

void try_training_loop(const Setup& setup, Tally& tally) {
  const unsigned kills = setup.quick ? 20 : 200;
  std::mt19937_64 random(setup.seed);
  std::vector<ckpt::Hash128> digests = digests_of_models();
  for (unsigned i = 0; i < kills; ++i) {
    fs::path folder = setup.scratch / "training";
    if (i % 10 == 0) write_folder(folder, {});  // else it goes on from what the last kill left
    fs::remove(folder / "net.safetensors");
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_t child = start_child([&] { train(folder / "net.safetensors", ends[1]); });
    ::close(ends[1]);
    ::usleep(static_cast<useconds_t>(2000 + random() % 40000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    unsigned said = last_said(ends[0]);
    ::close(ends[0]);
    tally.add_point("training loop", "SIGKILL at random");
    std::string wrong = resume(folder / "net.safetensors", said, digests);
    if (wrong.empty()) {
      ckpt::save(sample_model(0), folder / "net.safetensors", {.threads = 1});
      if (list_folder(folder).size() != 1) wrong = "something is left over: " + list_folder(folder).front();
    }
    if (!wrong.empty()) tally.add_violation("training loop", "SIGKILL at random", wrong);
  }
}

void try_crowd(const Setup& setup, Tally& tally) {
  constexpr unsigned kWriters = 8;
  constexpr unsigned kReaders = 16;
  const unsigned long wanted = setup.quick ? 300 : 10000;
  fs::path folder = setup.scratch / "crowd";
  write_folder(folder, {});
  fs::path path = folder / "net.safetensors";
  std::vector<ckpt::Hash128> digests = digests_of_models();
  ckpt::save(sample_model(0), path, {.threads = 1});
  void* shared = ::mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error("no shared memory");
  auto& counters = *new (shared) Counters();
  std::vector<pid_t> children;
  for (unsigned i = 0; i < kWriters; ++i) {
    children.push_back(start_child([&, i] { write_in_crowd(counters, path, wanted, i); }));
  }
  for (unsigned i = 0; i < kReaders; ++i) {
    children.push_back(start_child([&] { read_in_crowd(counters, path, wanted, digests); }));
  }
  unsigned long died = 0;
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    died += status != 0 ? 1 : 0;
  }
  const std::string faults = "8 writers, 16 readers";
  for (unsigned long i = 0; i < counters.saves; ++i) tally.add_point("saves of one name", faults);
  for (unsigned long i = 0; i < counters.reads; ++i) tally.add_point("reads meanwhile", faults);
  for (unsigned long i = 0; i < counters.bad_saves; ++i)
    tally.add_violation("saves of one name", faults, "an error of another kind");
  for (unsigned long i = 0; i < counters.bad_reads; ++i)
    tally.add_violation("reads meanwhile", faults, "neither an old nor a new file");
  if (died > 0) tally.add_violation("saves of one name", faults, std::to_string(died) + " processes died");
  if (list_folder(folder).size() != 1) tally.add_violation("saves of one name", faults, "something is left over");
  ::munmap(shared, sizeof(Counters));
}

}  // namespace test::faults
