#include "libcore/dist/mpi_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/dist/detail/blocked_signal.h"
#include "libcore/dist/launch.h"
#include "libcore/dist/mpi_exchange.h"
#include "libcore/dist/socket.h"

namespace core::distributed {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "libckpt_dist_mpi.so";
constexpr char kVariable[] = "CKPT_DIST_MPI";
constexpr std::size_t kSharedText = 256;

[[noreturn]] void fail_missing(const std::string& why) {
  throw Error(ErrorCode::runtime,
              "Distributed package doesn't have MPI built in. MPI is only included if you build PyTorch from source on "
              "a host that has MPI installed. Here it is a plug-in, which " +
                  why);
}

/// Where the plug-in may lie, seen from the program and from the library that holds this code.
std::vector<std::string> candidates() {
  std::vector<std::string> list;
  Dl_info info{};
  std::vector<fs::path> files;
  std::error_code failed;
  files.push_back(fs::read_symlink("/proc/self/exe", failed));
  if (::dladdr(reinterpret_cast<const void*>(&candidates), &info) != 0 && info.dli_fname != nullptr) {
    files.push_back(fs::canonical(info.dli_fname, failed));
  }
  for (const fs::path& file : files) {
    if (!file.has_parent_path()) continue;
    const fs::path folder = file.parent_path();
    for (const fs::path& each :
         {folder, folder / "ckpt", folder.parent_path() / "lib", folder.parent_path() / CKPT_LIBRARY_FOLDER / "ckpt"}) {
      list.push_back((each / kFile).string());
    }
  }
  list.push_back(std::string(CKPT_PLUGINS_INSTALLED) + "/" + kFile);
  return list;
}

/// The first of them that is a file; else its name alone, for the system to look for.
std::string path_of_plugin() {
  if (const char* named = ::secure_getenv(kVariable); named != nullptr && *named != '\0') return named;
  std::error_code failed;
  for (const std::string& path : candidates()) {
    if (fs::is_regular_file(path, failed)) return path;
  }
  return kFile;
}

const MpiPlugin* opened() {
  const std::string path = path_of_plugin();
  // MPI opens parts of its own, which look for its symbols among those of the whole process.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* said = ::dlerror();
    const std::string why = said == nullptr ? "" : said;
    if (path == kFile && why.starts_with(path)) {
      fail_missing("is built where the Debian package libopenmpi-dev is installed: " + path +
                   " is neither beside this program, nor in ../lib/ckpt from it, nor where the system looks; " +
                   kVariable + " names it");
    }
    fail_missing("cannot be opened (Debian package: openmpi-bin): " + why);
  }
  const auto find = reinterpret_cast<const MpiPlugin* (*)()>(::dlsym(library, kMpiPluginSymbol));
  const MpiPlugin* plugin = find == nullptr ? nullptr : find();
  if (plugin == nullptr || plugin->version != kMpiPluginVersion) {
    fail_missing("is of another version of this library: " + path);
  }
  return plugin;
}

/// Never destroyed: the end of the program uses it.
struct Mpi {
  std::mutex mutex;
  bool has_started = false;
  pid_t process = 0;  // that began it
  MpiFacts facts;
  Milliseconds timeout{};
  std::atomic<bool> was_given_up = false;
  std::function<void()> before_end;
};
Mpi& mpi() {
  static Mpi& one = *new Mpi;
  return one;
}

/// MPI's end waits for the other processes: not when one of them may be waiting for this one, and not for ever.
void end_mpi() {
  if (mpi().process != ::getpid()) return;  // a child has neither MPI nor connections of its own
  if (mpi().before_end) mpi().before_end();
  if (mpi().was_given_up) return;
  std::thread([timeout = mpi().timeout] {
    std::this_thread::sleep_until(deadline_after(timeout));
    std::fprintf(stderr, "rank %d of %d: MPI has not come to its end in %lld ms: another rank has not ended\n",
                 mpi().facts.rank, mpi().facts.size, static_cast<long long>(timeout.count()));
    std::_Exit(1);
  }).detach();
  mpi_plugin().finish();
}

/// mpirun starts processes that know each other; those of other launchers would each be alone.
void check_launch(const MpiFacts& facts) {
  const LaunchFacts launch = launch_facts();
  const std::int64_t wanted = launch.world_size.value_or(1);
  if (facts.size > 1 || wanted <= 1) return;
  throw Error(ErrorCode::runtime,
              "the backend mpi needs processes that mpirun started (Debian package: openmpi-bin): "
              "MPI knows of one process, where the launcher says that there are " +
                  std::to_string(wanted));
}

}  // namespace

const MpiPlugin& mpi_plugin() {
  static const MpiPlugin* plugin = opened();
  return *plugin;
}

void within(Milliseconds timeout, const std::string& what, std::function<void()> run) {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_ended = false;
    std::exception_ptr error;
  };
  const auto state = std::make_shared<State>();
  const detail::BlockedSignal no_pipe(SIGPIPE);  // MPI's threads inherit it
  std::thread([state, run = std::move(run)] {
    std::exception_ptr error;
    try {
      run();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(state->mutex);
    state->error = error;
    state->has_ended = true;
    state->changed.notify_all();
  }).detach();
  std::unique_lock lock(state->mutex);
  if (!state->changed.wait_until(lock, deadline_after(timeout), [&] { return state->has_ended; })) {
    give_up_mpi();
    throw Error(ErrorCode::io, "Timed out after " + std::to_string(timeout.count() / 1000) + " seconds in " + what +
                                   ": not all processes have called it");
  }
  if (state->error) std::rethrow_exception(state->error);
}

const MpiFacts& start_mpi(Milliseconds timeout) {
  Mpi& all = mpi();
  const MpiPlugin& plugin = mpi_plugin();
  const std::lock_guard lock(all.mutex);
  if (!all.has_started) {
    within(timeout, "MPI_Init_thread", [&all, &plugin] {
      char error[kMpiErrorRoom] = "";
      if (!plugin.start(&all.facts, error)) throw Error(ErrorCode::runtime, error);
    });
    all.has_started = true;
    all.process = ::getpid();
    std::atexit(end_mpi);
  }
  all.timeout = timeout;
  check_launch(all.facts);
  return all.facts;
}

std::string share_by_mpi(const std::string& text, Milliseconds timeout) {
  std::array<char, kSharedText> room{};
  std::memcpy(room.data(), text.data(), std::min(text.size(), room.size() - 1));
  const Call call{.timeout = timeout};
  MpiExchange exchange(mpi_plugin(), nullptr, 0, call);
  const MpiFacts& facts = mpi().facts;
  if (facts.rank == 0) {
    for (int rank = 1; rank < facts.size; ++rank) exchange.send(room.data(), kSharedText, rank);
  } else {
    exchange.receive(room.data(), kSharedText, 0);
  }
  exchange.wait();
  return room.data();
}

void give_up_mpi() {
  mpi().was_given_up = true;
}
bool mpi_was_given_up() {
  return mpi().was_given_up;
}

void before_mpi_ends(std::function<void()> run) {
  mpi().before_end = std::move(run);
}

}  // namespace core::distributed
