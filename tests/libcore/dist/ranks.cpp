#include "tests/libcore/dist/ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <thread>

#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"

extern char** environ;

namespace test {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> environment_of(const RanksOptions& options, int rank, int port, const std::string& report) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  all["RANK"] = std::to_string(rank);
  all["WORLD_SIZE"] = std::to_string(options.size);
  all["MASTER_ADDR"] = "127.0.0.1";
  all["MASTER_PORT"] = std::to_string(port);
  all["OMP_NUM_THREADS"] = "1";
  all["CKPT_RANK_REPORT"] = report;
  for (const auto& [name, value] : options.environment) all[name] = value;
  std::vector<std::string> list;
  for (const auto& [name, value] : all) {
    if (!value.empty()) list.push_back(name + "=" + value);
  }
  return list;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

pid_t start(const RanksOptions& options, int rank, int port, const std::filesystem::path& folder) {
  const std::string name = (folder / std::to_string(rank)).string();
  std::vector<std::string> arguments{std::filesystem::read_symlink("/proc/self/exe").string(), "--rank", options.role};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> variables = environment_of(options, rank, port, name + ".report");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, (name + ".errors").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, arguments[0].c_str(), &actions, nullptr, pointers(arguments).data(),
                                  pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start a rank");
  return child;
}

std::string content(const std::filesystem::path& path) {
  return std::filesystem::exists(path) ? read_file(path) : "";
}

}  // namespace

std::vector<Ending> run_ranks(const RanksOptions& options) {
  const TempDir folder;
  const int port = free_port();
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.size; ++rank) children.push_back(start(options, rank, port, folder.path()));
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

std::string rank_role(int argc, char** argv) {
  return argc >= 3 && std::string(argv[1]) == "--rank" ? argv[2] : "";
}
std::string rank_argument(int argc, char** argv, int i) {
  return argc > 3 + i ? argv[3 + i] : "";
}

void say(const std::string& line) {
  static const int file = ::open(std::getenv("CKPT_RANK_REPORT"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const std::string text = line + "\n";
  if (::write(file, text.data(), text.size()) < 0) throw std::runtime_error("cannot write the report");
}

}  // namespace test
