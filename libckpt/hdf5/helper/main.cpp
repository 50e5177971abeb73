// ckpt-hdf5: reads the structure of an HDF5 file in a process of its own, because libhdf5 is not made for files that
// nobody vouches for. The library starts it with the file as standard input and reads the answer from standard output.
// Usage: ckpt-hdf5 walk BEGIN LENGTH MAX_OBJECTS MAX_DEPTH CPU_SECONDS <file >answer
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

#include "libckpt/hdf5/helper/sandbox.h"
#include "libckpt/hdf5/helper/walker.h"
#include "libckpt/io/packed.h"

namespace {

using namespace ckpt::detail;

constexpr int kUsage = 2;
constexpr const char* kUsageText =
    "ckpt-hdf5 is started by the ckpt library; it reads the structure of an HDF5 file in a sandbox.\n"
    "usage: ckpt-hdf5 walk BEGIN LENGTH MAX_OBJECTS MAX_DEPTH CPU_SECONDS <file >answer\n"
    "       ckpt-hdf5 probe     says whether the sandbox holds on this system\n";

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

/// A failure may strike in the middle of a frame, which is then left out.
int run_walk(const std::uint64_t (&arguments)[5]) {
  Reply reply(STDOUT_FILENO);
  reply.begin(kFrameHello);
  core::append_le<std::uint32_t>(reply.content(), kHelperProtocol);
  reply.end();
  reply.stage("entering the sandbox");
  try {
    if (!enter_sandbox({.cpu_seconds = arguments[4]})) {
      if (errno == ENOMEM) ::_exit(kExitNoMemory);
      throw Failure{kFailureInternal, "no sandbox can be made"};
    }
    lock_library();
    ReadOnlyFile file(STDIN_FILENO, arguments[0], arguments[1]);
    walk(file, {.max_objects = arguments[2], .max_depth = arguments[3]}, reply);
  } catch (const Failure& failure) {
    reply.drop_open_frame();
    put_failure(reply, failure);
  }  // std::bad_alloc does not come: memory.cpp ends the process
  return 0;
}

/// 0 when nothing that the sandbox forbids can be done.
int run_probe() {
  bool entered = enter_sandbox({});
  std::string leaks = entered ? sandbox_leaks() : "everything: there is no sandbox";
  std::string line = leaks.empty() ? "the sandbox holds\n" : "inside the sandbox one can still " + leaks + "\n";
  ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
  return leaks.empty() && written > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "probe") ::_exit(run_probe());
  if (argc != 7 || std::string_view(argv[1]) != "walk") {
    std::fputs(kUsageText, argc > 1 && std::string_view(argv[1]) == "--help" ? stdout : stderr);
    return argc > 1 && std::string_view(argv[1]) == "--help" ? 0 : kUsage;
  }
  std::uint64_t arguments[5];
  for (int i = 0; i < 5; ++i) {
    std::optional<std::uint64_t> value = number(argv[i + 2]);
    if (!value) return kUsage;
    arguments[i] = *value;
  }
  // The library is not taken down: on damaged files that has crashed after everything was said.
  ::_exit(run_walk(arguments));
}
