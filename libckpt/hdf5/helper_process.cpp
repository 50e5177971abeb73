#include "libckpt/hdf5/helper_process.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "libckpt/hdf5/helper_child.h"
#include "libckpt/hdf5/wire.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/remote_name.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

/// A file that the child may read: the source's own, or a copy in memory.
struct Given {
  Fd fd;
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
};

Given copy_in_memory(const ByteSource& file) {
  Fd fd(::memfd_create("ckpt-hdf5", MFD_CLOEXEC));
  if (!fd) throw_errno(errno, "cannot start the HDF5 helper");
  std::uint64_t at = 0;
  for_each_part(file, [&](Bytes part) {
    while (!part.empty()) {
      ssize_t n = ::pwrite(fd.get(), part.data(), part.size(), static_cast<off_t>(at));
      if (n < 0) throw_errno(errno, "cannot hand the file to the HDF5 helper");
      at += static_cast<std::uint64_t>(n);
      part = part.subspan(static_cast<std::size_t>(n));
    }
  });
  return {duplicate_for_helper(fd.get()), 0, at};
}

Given give(const ByteSource& file) {
  std::optional<FileRange> range = file.file_range();
  if (is_far(file)) {
    throw Error(ErrorCode::unsupported, "HDF5 files are not read from other machines; download the file first");
  }
  if (!range) return copy_in_memory(file);
  return {duplicate_for_helper(range->fd), range->offset, range->length};
}

[[noreturn]] void fail_slow(const HelperProgress& progress, std::uint64_t seconds) {
  throw Error(ErrorCode::refused, "reading the structure of this HDF5 file takes more than the limit of " +
                                      std::to_string(seconds) + " s; it was at: " + core::printable(progress.stage));
}

/// Reads until the child closes its end.
void collect(HelperChild& child, const HelperJob& job) {
  while (true) {
    HelperChild::Heard heard = child.hear();
    if (heard == HelperChild::Heard::end) return;
    if (heard == HelperChild::Heard::slow) fail_slow(progress_of(child.answer()), job.seconds);
    if (child.answer().size() <= job.max_answer) continue;
    throw Error(ErrorCode::refused, "the structure of this HDF5 file takes more than " +
                                        core::format_size(job.max_answer) + " to describe");
  }
}

void require_good_end(int status, Bytes answer, const HelperJob& job) {
  HelperProgress progress = progress_of(answer);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) fail_slow(progress, job.seconds);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitMemoryLimit) {
    throw Error(ErrorCode::refused,
                "reading the structure of this HDF5 file takes more memory than is allowed; it was at: " +
                    core::printable(progress.stage));
  }
  require_no_outer_cause(status);
  if (WIFSIGNALED(status)) {
    throw Error(ErrorCode::corrupt, "libhdf5 crashed (signal " + std::to_string(WTERMSIG(status)) +
                                        ") in the helper process on this file, which is damaged or hostile; it was "
                                        "at: " +
                                        core::printable(progress.stage));
  }
  if (progress.complete) return;
  throw Error(ErrorCode::corrupt, "the HDF5 helper ended early (status " +
                                      std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 0) +
                                      "); it was at: " + core::printable(progress.stage));
}

}  // namespace

core::ByteVector run_hdf5_helper(const ByteSource& file, const HelperJob& job) {
  Given given = give(file);
  std::vector<std::string> arguments = {job.unsandboxed ? "walk-unsandboxed" : "walk"};
  for (std::uint64_t number :
       {given.begin, given.length, job.max_objects, job.max_depth, job.seconds + 1, std::uint64_t{job.measure}}) {
    arguments.push_back(std::to_string(number));
  }
  HelperChild child(arguments, given.fd.get(), job.seconds);
  collect(child, job);
  require_good_end(child.finish(), child.answer(), job);
  return child.take_answer();
}

}  // namespace ckpt::detail
