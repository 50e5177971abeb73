#include "tools/ckpt/commands/runtime_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "libckpt/io/trusted_program.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "ckpt-run";
constexpr const char* kVariable = "CKPT_RUN";

std::vector<fs::path> candidates() {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<fs::path> list = {folder / kProgram, folder.parent_path() / "libexec" / "ckpt" / kProgram};
#ifdef CKPT_RUN_INSTALLED
  list.emplace_back(CKPT_RUN_INSTALLED);
#endif
#ifdef CKPT_RUN_BUILT
  list.emplace_back(CKPT_RUN_BUILT);
#endif
  return list;
}

}  // namespace

fs::path find_runtime_program() {
  const std::string purpose = std::string("models are run by the program ") + kProgram;
  if (const char* named = ::secure_getenv(kVariable); named != nullptr && *named != '\0') {
    const fs::path path = fs::absolute(named);
    const std::string fault = ckpt::program_fault(path);
    if (fault.empty()) return path;
    throw core::Error(core::ErrorCode::unsupported, purpose + ", and " + core::quote(path.string()) + ", which " +
                                                        kVariable + " names, cannot be it: " + fault);
  }
  for (const fs::path& path : candidates()) {
    if (ckpt::program_fault(path).empty()) return path;
  }
  throw core::Error(core::ErrorCode::unsupported, purpose +
                                                      ", which was not found beside ckpt nor in ../libexec/ckpt from "
                                                      "it; install it or name it in " +
                                                      kVariable);
}

void become_runtime_program(const std::vector<std::string>& words) {
  std::string program = find_runtime_program().string();
  std::vector<std::string> copies = words;
  std::vector<char*> argv = {program.data()};
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  throw core::Error(core::ErrorCode::io, "cannot start " + core::quote(program) + ": " + std::strerror(errno));
}

}  // namespace cli
