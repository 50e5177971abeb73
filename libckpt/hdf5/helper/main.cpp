// ckpt-hdf5: all that libhdf5 does for the ckpt library, in a process of its own, because libhdf5 is not made for files
// that nobody vouches for, and what goes wrong in it must not end the program that saves. The library starts it with
// the file, or what is to be described, as standard input and reads the answer from standard output. Usage: ckpt-hdf5
// walk BEGIN LENGTH MAX_OBJECTS MAX_DEPTH CPU_SECONDS MEASURE <file >answer
//        ckpt-hdf5 walk-unsandboxed ...   the same where the system does not let it be confined
//        ckpt-hdf5 describe <description >answer
//        ckpt-hdf5 relink <request >answer
//        ckpt-hdf5 probe      says whether the sandbox holds on this system

#include <hdf5.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "libckpt/hdf5/helper/describer.h"
#include "libckpt/hdf5/helper/relinker.h"
#include "libckpt/hdf5/helper/sandbox.h"
#include "libckpt/hdf5/helper/walker.h"
#include "libckpt/io/packed.h"

namespace {

using namespace ckpt::detail;

constexpr int kUsage = 2;
constexpr int kWalkNumbers = 6;
constexpr const char* kUsageText =
    "ckpt-hdf5 is started by the ckpt library; it reads and makes the structure of HDF5 files in a sandbox.\n"
    "usage: ckpt-hdf5 walk BEGIN LENGTH MAX_OBJECTS MAX_DEPTH CPU_SECONDS MEASURE <file >answer\n"
    "       ckpt-hdf5 walk-unsandboxed ...   the same where the system does not let it be confined\n"
    "       ckpt-hdf5 describe <description >answer\n"
    "       ckpt-hdf5 relink <request >answer\n"
    "       ckpt-hdf5 probe     says whether the sandbox holds on this system\n";

enum class Unconfined : std::uint8_t { refused, allowed };

std::optional<std::uint64_t> number(const char* text) {
  char* end = nullptr;
  std::uint64_t value = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0') return std::nullopt;
  return value;
}

/// What libhdf5 could reach besides the file it is given.
void lock_library() {
  require_hdf5(H5open(), "libhdf5 does not start");
  require_hdf5(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "no error stack");
  require_hdf5(H5PLset_loading_state(0), "plugins cannot be turned off");
  require_hdf5(H5Lunregister(H5L_TYPE_EXTERNAL), "external links cannot be turned off");
}

void put_failure(Reply& reply, const Failure& failure) {
  reply.begin(kFrameFailure);
  reply.content().push_back(static_cast<std::byte>(failure.kind));
  core::append(reply.content(), core::as_bytes(std::string_view(failure.text).substr(0, 4000)));
  reply.end();
  reply.flush();
}

void put_hello(Reply& reply, std::uint8_t layers) {
  reply.begin(kFrameHello);
  core::append_le<std::uint32_t>(reply.content(), kHelperProtocol);
  reply.content().push_back(static_cast<std::byte>(layers));
  reply.end();
}

/// A failure may strike in the middle of a frame, which is then left out.
template <class Job>
int answer(Reply& reply, Job&& job) {
  try {
    job();
  } catch (const Failure& failure) {
    reply.drop_open_frame();
    put_failure(reply, failure);
  } catch (const core::Error& error) {
    reply.drop_open_frame();
    put_failure(reply, {kFailureInternal, error.message()});
  }  // std::bad_alloc does not come: memory.cpp ends the process
  return 0;
}

int run_walk(const std::uint64_t (&arguments)[kWalkNumbers], Unconfined unconfined) {
  Reply reply(STDOUT_FILENO);
  std::uint8_t layers = enter_sandbox({.cpu_seconds = arguments[4]});
  put_hello(reply, layers);
  return answer(reply, [&] {
    if (layers != kAllLayers && unconfined == Unconfined::refused) throw Failure{kFailureUnconfined, ""};
    reply.stage("starting libhdf5");
    lock_library();
    ReadOnlyFile file(STDIN_FILENO, arguments[0], arguments[1]);
    walk(file, {.max_objects = arguments[2], .max_depth = arguments[3], .measure = arguments[5] != 0}, reply);
  });
}

/// The input is what the library itself says, so that a layer that is missing is no reason to stop; and it knows best
/// how long it waits. It is greeted before it has anything to say: what is wrong with this program shows early.
int run_describe() {
  constexpr std::uint64_t kDay = 24ULL * 3600;
  Reply reply(STDOUT_FILENO);
  put_hello(reply, enter_sandbox({.cpu_seconds = kDay, .address_space = 64ULL << 30}));
  return answer(reply, [&] {
    lock_library();
    reply.flush();
    core::ByteVector description = read_description(STDIN_FILENO);
    if (!description.empty()) describe(description, reply);
  });
}

/// The metadata comes from a file that nobody vouches for, and there is another way where it cannot be confined.
int run_relink() {
  constexpr std::uint64_t kMinute = 60;
  Reply reply(STDOUT_FILENO);
  std::uint8_t layers = enter_sandbox({.cpu_seconds = kMinute});
  put_hello(reply, layers);
  return answer(reply, [&] {
    if (layers != kAllLayers) throw Failure{kFailureUnconfined, ""};
    lock_library();
    reply.flush();
    core::ByteVector request = read_description(STDIN_FILENO);
    if (!request.empty()) relink(request, reply);
  });
}

/// 0 when nothing that the sandbox forbids can be done.
int run_probe() {
  std::uint8_t layers = enter_sandbox({});
  std::string leaks = sandbox_leaks();
  std::string line;
  if ((layers & kLayerFiles) == 0) line += "Landlock does not hold\n";
  if ((layers & kLayerCalls) == 0) line += "seccomp does not hold\n";
  if ((layers & kLayerLimits) == 0) line += "limits of memory and time do not hold\n";
  if (!leaks.empty()) line += "inside the sandbox one can still " + leaks + "\n";
  bool good = line.empty();
  if (good) line = "the sandbox holds\n";
  ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
  return good && written > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view job = argc > 1 ? argv[1] : "";
  if (argc == 2 && job == "probe") ::_exit(run_probe());
  if (argc == 2 && job == "describe") ::_exit(run_describe());
  if (argc == 2 && job == "relink") ::_exit(run_relink());
  bool unsandboxed = job == "walk-unsandboxed";
  if (argc != 2 + kWalkNumbers || (job != "walk" && !unsandboxed)) {
    std::fputs(kUsageText, job == "--help" ? stdout : stderr);
    return job == "--help" ? 0 : kUsage;
  }
  std::uint64_t arguments[kWalkNumbers];
  for (int i = 0; i < kWalkNumbers; ++i) {
    std::optional<std::uint64_t> value = number(argv[i + 2]);
    if (!value) return kUsage;
    arguments[i] = *value;
  }
  // The library is not taken down: on damaged files that has crashed after everything was said.
  ::_exit(run_walk(arguments, unsandboxed ? Unconfined::allowed : Unconfined::refused));
}
