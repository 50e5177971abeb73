// Files of every format, changed at random: whatever comes of one, it is data or one sentence and an exit code for it,
// within ten seconds; nothing outside its folder is opened, and no unfinished output is left. $CKPT_MUTATIONS says how
// many changes are tried (3,000), $CKPT_MUTATIONS_FROM where to begin, and $CKPT_MUTATION_KEEP names a folder for the
// files that failed.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <new>
#include <thread>

#include "libckpt/ckpt.h"
#include "libckpt/format/format.h"
#include "libcore/base/error.h"
#include "tests/cli/program.h"
#include "tests/mutations/mutator.h"
#include "tests/mutations/opened_files.h"
#include "tests/support/temp_dir.h"
#include "tools/ckpt/exit_code.h"

namespace {

namespace fs = std::filesystem;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kInstrumented = true;
#else
constexpr bool kInstrumented = false;
#endif

constexpr std::chrono::seconds kPatience{kInstrumented ? 60 : 10};
constexpr rlim_t kMemory = 2ULL << 30;  ///< address space; no file here needs a tenth of it
constexpr std::uint64_t kMostRead = 1 << 20;
constexpr int kMostFailures = 10;

#ifdef CKPT_MANY_MUTATIONS
constexpr std::uint64_t kTries = 30'000;
constexpr std::uint64_t kProgramTries = 1'000;
#else
constexpr std::uint64_t kTries = 3'000;
constexpr std::uint64_t kProgramTries = 60;
#endif

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

const test::Mutator& mutator() {
  static const test::Mutator* made = [] {
    std::vector<test::Seed> seeds = test::own_seeds();
    std::vector<test::Seed> golden = test::golden_seeds();
    seeds.insert(seeds.end(), golden.begin(), golden.end());
    return new test::Mutator(std::move(seeds));
  }();
  return *made;
}

/// Writes the files of a mutation into `folder` and returns what is to be opened.
fs::path put(const test::Mutation& mutation, const fs::path& folder) {
  fs::path top = mutation.seed->is_folder ? folder / "in" : folder;
  fs::create_directories(top);
  for (std::size_t i = 0; i < mutation.seed->files.size(); ++i) {
    const test::Seed::File& file = mutation.seed->files[i];
    test::write_file(top / file.name, i == mutation.file ? mutation.bytes : file.bytes);
  }
  return mutation.seed->is_folder ? top : top / mutation.seed->opened;
}

std::string title(std::uint64_t number) {
  test::Mutation mutation = mutator().make(number);
  return "change " + std::to_string(number) + " of " + mutation.seed->name + " (" +
         mutation.seed->files[mutation.file].name + ")";
}

void keep(std::uint64_t number) {
  const char* folder = std::getenv("CKPT_MUTATION_KEEP");
  if (folder != nullptr) put(mutator().make(number), fs::path(folder) / std::to_string(number));
}

bool is_answer(int code) {
  return code == cli::kDone || code == cli::kNo || code == cli::kBad || code == cli::kIo;
}

/// Runs it; "" for an answer, also where that is an error with a sentence.
std::string fault_of(const std::string& what, const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    bool good = is_answer(cli::exit_code(error.code())) && !error.message().empty();
    return good ? "" : what + ": " + std::string(error.what());
  } catch (const std::exception& error) {
    return what + ": " + error.what();
  }
  return "";
}

ckpt::OpenOptions open_options(std::uint64_t number) {
  ckpt::OpenOptions options;
  options.threads = 1;
  options.lenient = number % 4 == 1;
  options.foreign_objects = number % 2 == 1;
  return options;
}

void look(const fs::path& path, const ckpt::OpenOptions& options) {
  ckpt::Checkpoint checkpoint = ckpt::open(path, options);
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
    if (named.entry->bytes && named.entry->byte_size() <= kMostRead) ckpt::read_all(*named.entry->bytes);
  }
}

/// Converts; what was made of a file that can be read, can be read. Damage is copied with the checksum that shows it.
std::string convert(const fs::path& path, const fs::path& out, const ckpt::OpenOptions& options, bool whole) {
  bool made = false;
  std::string fault = fault_of("convert", [&] {
    ckpt::Checkpoint checkpoint = ckpt::open(path, options);
    ckpt::SaveOptions save;
    save.durable = false;
    save.drop_inexpressible = true;
    save.threads = 1;
    ckpt::save(checkpoint, out, save);
    made = true;
  });
  if (!fault.empty() || !made) return fault;
  try {
    ckpt::OpenOptions again;
    again.threads = 1;
    again.foreign_objects = true;
    whole ? look(out, again) : (void)ckpt::open(out, again);
    return "";
  } catch (const std::exception& error) {
    return std::string("what convert made cannot be read: ") + error.what();
  }
}

std::string output_name(std::uint64_t number) {
  constexpr const char* kOutputs[] = {"out.safetensors", "out.pth", "out.npz", "out.gguf"};
  return number % 64 == 5 ? "out.ckpt" : kOutputs[number / 3 % std::size(kOutputs)];
}

std::string try_one(std::uint64_t number, const fs::path& scratch) {
  fs::path folder = scratch / "one";
  fs::remove_all(folder);
  fs::path path = put(mutator().make(number), folder);
  fs::create_directory(folder / "made");
  ckpt::OpenOptions options = open_options(number);
  test::watch_opens(folder);
  bool whole = false;
  std::string fault = fault_of("ls", [&] {
    look(path, options);
    whole = true;
  });
  if (fault.empty()) fault = fault_of("verify", [&] { ckpt::verify(path, options); });
  fs::path out = folder / "made" / output_name(number);
  if (fault.empty()) fault = convert(path, out, options, whole && !options.lenient);
  std::vector<std::string> left = test::list_folder(folder / "made");
  std::erase(left, out.filename().string());
  if (fault.empty() && !left.empty()) fault = "left " + left.front();
  std::string stray = test::first_stray_open();
  return fault.empty() && !stray.empty() ? "opened " + stray : fault;
}

/// What the child that tries says to the one that waits.
struct Notes {
  std::atomic<std::uint64_t> number;
  std::atomic<bool> done;
  char fault[2000];
};

/// In a child: tries all from `from` to `to`, until one fails.
[[noreturn]] void try_in_child(Notes& notes, std::uint64_t from, std::uint64_t to, const fs::path& scratch) {
  rlimit memory{kMemory, kMemory};
  if (!kInstrumented) ::setrlimit(RLIMIT_AS, &memory);
  for (std::uint64_t number = from; number < to; ++number) {
    notes.number = number;
    std::string fault = try_one(number, scratch);
    if (fault.empty()) continue;
    std::strncpy(notes.fault, fault.c_str(), sizeof notes.fault - 1);
    ::_exit(1);
  }
  notes.done = true;
  ::_exit(0);
}

/// Waits for the child; "" when it has tried all, else what became of the number in the notes.
std::string wait_for(pid_t child, Notes& notes) {
  std::uint64_t number = notes.number;
  auto since = std::chrono::steady_clock::now();
  for (;;) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      if (notes.done) return "";
      if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
      return notes.fault[0] != '\0' ? notes.fault : "ended with " + std::to_string(WEXITSTATUS(status));
    }
    if (notes.number != number) {
      number = notes.number;
      since = std::chrono::steady_clock::now();
    }
    if (std::chrono::steady_clock::now() - since > kPatience) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return "took too long";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

TEST(Mutations, EachIsReadOrRefusedWithOneSentence) {
  test::TempDir scratch;
  void* page = ::mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* notes = new (page) Notes();
  std::uint64_t from = number_from("CKPT_MUTATIONS_FROM", 0);
  const std::uint64_t to = from + number_from("CKPT_MUTATIONS", kTries);
  std::cout << mutator().seeds() << " files, changes " << from << " to " << to << std::endl;
  for (int failures = 0; from < to && failures < kMostFailures; ++failures) {
    new (page) Notes();
    notes->number = from;
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) try_in_child(*notes, from, to, scratch.path());
    std::string fault = wait_for(child, *notes);
    if (fault.empty()) break;
    ADD_FAILURE() << title(notes->number) << ": " << fault;
    keep(notes->number);
    from = notes->number + 1;
  }
  ::munmap(page, sizeof(Notes));
}

TEST(Mutations, TheProgramEndsWithACodeAndALine) {
  test::RunOptions limits;
  limits.in_child = [] {
    rlimit seconds{static_cast<rlim_t>(kPatience.count()), static_cast<rlim_t>(kPatience.count())};
    ::setrlimit(RLIMIT_CPU, &seconds);
  };
  for (std::uint64_t i = 0; i < kProgramTries; ++i) {
    const std::uint64_t number = number_from("CKPT_MUTATIONS_FROM", 0) + 1'000'003 * (i + 1);
    test::TempDir dir;
    std::string path = fs::relative(put(mutator().make(number), dir.path()), dir.path()).string();
    fs::create_directory(dir.path() / "made");
    const std::string out = "made/" + output_name(number);
    for (std::vector<std::string> command : std::vector<std::vector<std::string>>{
             {"ls", "./" + path}, {"verify", "./" + path}, {"convert", "--drop", "./" + path, out}}) {
      test::Outcome done = test::run_ckpt(dir.path(), command, limits);
      EXPECT_EQ(done.signal, 0) << title(number) << ": " << command[0];
      EXPECT_TRUE(is_answer(done.code)) << title(number) << ": " << command[0] << " " << done.code << " " << done.err;
      if (done.code < cli::kBad) continue;
      EXPECT_TRUE(done.err.starts_with("ckpt: ") || done.out.find("finding: ") != std::string::npos)
          << title(number) << ": " << command[0] << " " << done.err;
      EXPECT_TRUE(test::list_folder(dir.path() / "made").empty()) << title(number) << ": " << command[0];
    }
    if (HasFailure()) keep(number);
  }
}
