#include "tests/libcore/dist/ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <thread>

#include "libcore/dist/init.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"

extern char** environ;

namespace test {
namespace {

using Clock = std::chrono::steady_clock;

/// Without what mpirun tells the ranks itself.
std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  all["OMP_NUM_THREADS"] = "1";
  return all;
}

std::vector<std::string> lines_of(const std::map<std::string, std::string>& all) {
  std::vector<std::string> list;
  for (const auto& [name, value] : all) {
    if (!value.empty()) list.push_back(name + "=" + value);
  }
  return list;
}

std::vector<std::string> environment_of(const RanksOptions& options, int rank, int port, const std::string& report) {
  std::map<std::string, std::string> all = own_environment();
  all["RANK"] = std::to_string(rank);
  all["WORLD_SIZE"] = std::to_string(options.size);
  all["MASTER_ADDR"] = "127.0.0.1";
  all["MASTER_PORT"] = std::to_string(port);
  all["CKPT_RANK_REPORT"] = report;
  if (options.backend != default_backend()) all["CKPT_TEST_BACKEND"] = options.backend;
  for (const auto& [name, value] : options.environment) all[name] = value;
  return lines_of(all);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::string content(const std::filesystem::path& path) {
  return std::filesystem::exists(path) ? read_file(path) : "";
}

std::vector<std::string> command_of(const RanksOptions& options) {
  std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe").string(), "--rank", options.role};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  return words;
}

pid_t start(std::vector<std::string> words, std::vector<std::string> variables, const std::string& errors) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = -1;
  const int error =
      ::posix_spawnp(&child, words[0].c_str(), &actions, nullptr, pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + words[0]);
  return child;
}

pid_t start_rank(const RanksOptions& options, int rank, int port, const std::filesystem::path& folder) {
  const std::string name = (folder / std::to_string(rank)).string();
  return start(command_of(options), environment_of(options, rank, port, name + ".report"), name + ".errors");
}

/// All ranks are mpirun's; it says of their ends what is its own.
std::vector<Ending> run_by_mpirun(const RanksOptions& options) {
  const TempDir folder;
  std::vector<std::string> words{"mpirun", "--allow-run-as-root", "--oversubscribe", "-n",
                                 std::to_string(options.size)};
  // It would end all when one ends badly, before they say what they think of it.
  for (const char* word : {"--enable-recovery", "--mca", "orte_abort_on_non_zero_status", "0", "--mca",
                           "orte_allowed_exit_without_sync", "1"}) {
    words.emplace_back(word);
  }
  for (const std::string& word : command_of(options)) words.push_back(word);
  std::map<std::string, std::string> all = own_environment();
  all["CKPT_TEST_BACKEND"] = options.backend;
  all["CKPT_RANK_REPORT"] = (folder.path() / "report").string();
  for (const auto& [name, value] : options.environment) all[name] = value;
  const std::string errors = (folder.path() / "errors").string();
  const pid_t child = start(words, lines_of(all), errors);
  Ending ending;
  int status = 0;
  const auto deadline = Clock::now() + options.limit;
  // It ends its ranks when it is asked to.
  for (int signal = SIGTERM; ::waitpid(child, &status, WNOHANG) != child;) {
    if (Clock::now() > deadline + std::chrono::seconds(ending.timed_out ? 5 : 0)) {
      ::kill(child, signal);
      if (ending.timed_out) signal = SIGKILL;
      ending.timed_out = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  ending.errors = content(errors);
  std::vector<Ending> endings(static_cast<std::size_t>(options.size), ending);
  for (std::size_t i = 0; i < endings.size(); ++i) {
    endings[i].report = content(folder.path() / ("report." + std::to_string(i)));
  }
  return endings;
}

}  // namespace

std::vector<Ending> run_ranks(const RanksOptions& options) {
  if (options.backend == "mpi") return run_by_mpirun(options);
  const TempDir folder;
  const int port = free_port();
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.size; ++rank) children.push_back(start_rank(options, rank, port, folder.path()));
  std::vector<Ending> endings(children.size());
  const auto deadline = Clock::now() + options.limit;
  for (std::size_t left = children.size(); left > 0;) {
    const bool is_late = Clock::now() > deadline;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (children[i] < 0) continue;
      if (is_late) ::kill(children[i], SIGKILL);
      int status = 0;
      if (::waitpid(children[i], &status, is_late ? 0 : WNOHANG) != children[i]) continue;
      endings[i].status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      endings[i].timed_out = is_late;
      children[i] = -1;
      --left;
    }
    if (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (std::size_t i = 0; i < endings.size(); ++i) {
    endings[i].report = content(folder.path() / (std::to_string(i) + ".report"));
    endings[i].errors = content(folder.path() / (std::to_string(i) + ".errors"));
  }
  return endings;
}

std::string default_backend() {
  const char* named = std::getenv("CKPT_TEST_BACKEND");
  return named == nullptr ? "" : named;
}

bool has_backend(const std::string& backend, std::string* why) {
  std::string missing;
  if (backend != "mpi") {
    if (!core::distributed::is_gloo_available()) missing = "built without Gloo (Debian: libgloo-dev)";
  } else if (!core::distributed::is_mpi_available()) {
    missing = "built without MPI (Debian: libopenmpi-dev)";
  } else if (std::system("command -v mpirun >/dev/null") != 0) {
    missing = "no mpirun here (Debian: openmpi-bin)";
  }
  if (why != nullptr) *why = missing;
  return missing.empty();
}

std::string rank_role(int argc, char** argv) {
  return argc >= 3 && std::string(argv[1]) == "--rank" ? argv[2] : "";
}
std::string rank_argument(int argc, char** argv, int i) {
  return argc > 3 + i ? argv[3 + i] : "";
}

void say(const std::string& line) {
  const char* rank_of_mpi = std::getenv("OMPI_COMM_WORLD_RANK");
  static const std::string name =
      std::getenv("CKPT_RANK_REPORT") + (rank_of_mpi == nullptr ? std::string() : "." + std::string(rank_of_mpi));
  static const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const std::string text = line + "\n";
  if (::write(file, text.data(), text.size()) < 0) throw std::runtime_error("cannot write the report");
}

}  // namespace test
