#include "tests/cli/program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "tests/support/temp_dir.h"

namespace test {
namespace {

[[noreturn]] void start(std::string program, const std::filesystem::path& folder,
                        const std::vector<std::string>& arguments, const RunOptions& options, const std::string& out,
                        const std::string& err) {
  std::vector<char*> argv = {program.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int in_fd = ::open("/dev/null", O_RDONLY);
  int out_fd =
      ::open(options.stdout_path.empty() ? out.c_str() : options.stdout_path.c_str(), O_WRONLY | O_CREAT, 0666);
  int err_fd = ::open(err.c_str(), O_WRONLY | O_CREAT, 0666);
  ::dup2(in_fd, 0);
  ::dup2(out_fd, 1);
  ::dup2(err_fd, 2);
  if (::chdir(folder.c_str()) != 0) ::_exit(126);
  ::setenv("LC_ALL", "C.UTF-8", 1);
  if (options.in_child) options.in_child();
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

}  // namespace

std::filesystem::path built_program(const std::string& name) {
  const char* folder = std::getenv("CKPT_BIN_DIR");
  return std::filesystem::path(folder != nullptr ? folder : "build/bin") / name;
}

std::filesystem::path ckpt_program() {
  return built_program("ckpt");
}

Outcome run_ckpt(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                 const RunOptions& options) {
  return run_program(ckpt_program(), folder, arguments, options);
}

Outcome run_program(const std::filesystem::path& program, const std::filesystem::path& folder,
                    const std::vector<std::string>& arguments, const RunOptions& options) {
  TempDir streams;
  std::string out = (streams.path() / "out").string();
  std::string err = (streams.path() / "err").string();
  write_file(out, "");  // also for a program that a signal ends before it starts
  write_file(err, "");
  pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("cannot fork");
  if (pid == 0) start(program.string(), folder, arguments, options, out, err);
  if (options.while_running) options.while_running(pid);
  int status = 0;
  ::waitpid(pid, &status, 0);
  Outcome outcome;
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  if (options.stdout_path.empty()) outcome.out = read_file(out);
  outcome.err = read_file(err);
  return outcome;
}

}  // namespace test
