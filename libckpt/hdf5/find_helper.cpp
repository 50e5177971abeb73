#include "libckpt/hdf5/find_helper.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "libckpt/io/trusted_program.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr const char* kProgram = "ckpt-hdf5";
constexpr const char* kVariable = "CKPT_HDF5_HELPER";

/// Where the code of this function lies: the program, or the library when it is a shared one.
std::filesystem::path own_file() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_file), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return std::filesystem::canonical(info.dli_fname, ignored);
}

std::filesystem::path own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

/// A tree that was installed elsewhere than planned is found by its program.
void add_from_path(std::vector<std::filesystem::path>& list) {
  const char* path = ::secure_getenv("PATH");
  for (std::string_view folder : core::split(path == nullptr ? "" : path, ':')) {
    std::filesystem::path program = std::filesystem::path(folder) / "ckpt";
    if (!program.is_absolute() || ::access(program.c_str(), X_OK) != 0) continue;
    std::error_code failed;
    std::filesystem::path real = std::filesystem::canonical(program, failed);
    if (!failed) list.push_back(real.parent_path().parent_path() / "libexec" / "ckpt" / kProgram);
  }
}

}  // namespace

namespace detail {

std::vector<std::filesystem::path> helper_candidates() {
  std::vector<std::filesystem::path> list;
  for (const std::filesystem::path& file : {own_program(), own_file()}) {
    if (file.empty()) continue;
    std::filesystem::path folder = file.parent_path();
    list.push_back(folder / kProgram);
    list.push_back(folder.parent_path() / "libexec" / "ckpt" / kProgram);
    list.push_back(folder.parent_path().parent_path() / "libexec" / "ckpt" / kProgram);  // from lib/<machine>
  }
#ifdef CKPT_HELPER_INSTALLED
  list.emplace_back(CKPT_HELPER_INSTALLED);
#endif
  add_from_path(list);
#ifdef CKPT_HELPER_BUILT
  list.emplace_back(CKPT_HELPER_BUILT);
#endif
  return list;
}

}  // namespace detail

std::filesystem::path find_hdf5_helper() {
  if (const char* named = ::secure_getenv(kVariable); named != nullptr && *named != '\0') {
    std::filesystem::path path = std::filesystem::absolute(named);
    std::string fault = program_fault(path);
    if (fault.empty()) return path;
    throw Error(ErrorCode::unsupported, std::string("HDF5 (.ckpt, .h5, Keras) needs the helper program ") + kProgram +
                                            ", and " + core::quote(path.string()) + ", which " + kVariable +
                                            " names, cannot be it: " + fault);
  }
  for (const std::filesystem::path& path : detail::helper_candidates()) {
    if (program_fault(path).empty()) return path;
  }
  throw Error(ErrorCode::unsupported,
              std::string("HDF5 (.ckpt, .h5, Keras) needs the helper program ") + kProgram +
                  ", which was not found beside this program nor in ../libexec/ckpt from it; install it or name it "
                  "in " +
                  kVariable);
}

std::optional<std::filesystem::path> try_find_hdf5_helper() {
  try {
    return find_hdf5_helper();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace ckpt
