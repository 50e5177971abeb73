#include "libckpt/hdf5/describer.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>

#include "libckpt/hdf5/find_helper.h"
#include "libckpt/hdf5/kept_answers.h"
#include "libckpt/hdf5/wire.h"
#include "libckpt/io/byte_cursor.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using Heard = HelperChild::Heard;

constexpr std::uint64_t kSecondsAtLeast = 60;
constexpr std::uint64_t kBytesPerSecond = 16ULL << 10;  ///< of the description; a hundred times slower than usual
constexpr std::uint64_t kAnswerAtLeast = 64ULL << 20;
constexpr std::uint64_t kAnswerPerByte = 1024;  ///< a chunk in 32 dimensions takes half of it
constexpr std::size_t kHello = kFrameHead + 5;
constexpr const char* kAdvice =
    "; nothing was written: save again, or in a format that needs no helper, such as "
    ".safetensors";

[[noreturn]] void fail_slow() {
  throw Error(ErrorCode::io, std::string("the HDF5 helper takes too long to describe the file") + kAdvice);
}

[[noreturn]] void fail_dead(int status) {
  require_no_outer_cause(status);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitMemoryLimit) throw std::bad_alloc();
  std::string how = WIFSIGNALED(status) ? "was ended by signal " + std::to_string(WTERMSIG(status))
                                        : "ended early (status " + std::to_string(WEXITSTATUS(status)) + ")";
  throw Error(ErrorCode::io, "the HDF5 helper, which describes the tensors to other programs, " + how + kAdvice);
}

}  // namespace

Hdf5Describer::Hdf5Describer() : job_("describe"), program_(try_find_hdf5_helper().value_or("").string()) {
  if (!kept_answers().has_some_of(program_)) start();
}

Hdf5Describer::Hdf5Describer(const char* job) : job_(job) {
  start();
}

void Hdf5Describer::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw_errno(errno, "cannot start the HDF5 helper");
  }
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  theirs = duplicate_for_helper(theirs.get());
  child_ = std::make_unique<HelperChild>(std::vector<std::string>{job_}, theirs.get(), kSecondsAtLeast);
  socket_ = std::move(ours);
}

void Hdf5Describer::require_ready() {
  if (child_ == nullptr) start();
  child_->allow(kSecondsAtLeast);
  while (child_->answer().size() < kHello) {
    Heard heard = child_->hear();
    if (heard == Heard::slow) fail_slow();
    if (heard == Heard::end && child_->answer().empty()) fail_dead(child_->finish());
    if (heard == Heard::end) break;  // a version that says less
  }
  ByteCursor in(child_->answer(), "the HDF5 helper's greeting");
  take_hello(in);
}

bool Hdf5Describer::ask(core::Bytes description) {
  child_->allow(kSecondsAtLeast + description.size() / kBytesPerSecond);
  std::uint64_t max_answer = core::checked_add(kAnswerAtLeast, core::checked_mul(kAnswerPerByte, description.size()));
  std::byte length[8];
  core::store_le<std::uint64_t>(length, description.size());
  for (core::Bytes bytes : {core::Bytes(length), description}) {
    HelperChild::Told told = child_->tell(socket_.get(), bytes);
    if (told == HelperChild::Told::slow) fail_slow();
    if (told == HelperChild::Told::closed) return false;
  }
  while (true) {
    Heard heard = child_->hear();
    if (heard == Heard::slow) fail_slow();
    if (heard == Heard::end) return progress_of(child_->answer()).complete;
    if (child_->answer().size() > max_answer) {
      throw Error(ErrorCode::internal, "the HDF5 helper describes the file in more than " +
                                           core::format_size(max_answer) + " and does not come to an end");
    }
  }
}

Hdf5Image Hdf5Describer::describe(core::Bytes description, const DescribedPlan& plan) {
  if (description.size() > kMaxDescription) {
    throw Error(ErrorCode::unsupported, "the names of all tensors together take " +
                                            core::format_size(description.size()) + " to describe, where HDF5 files " +
                                            "are made from at most " + core::format_size(kMaxDescription));
  }
  if (std::optional<Hdf5Image> known = kept_answers().find(program_, description)) return *known;
  if (child_ == nullptr) require_ready();
  if (!ask(description)) {
    start();
    if (!ask(description)) fail_dead(child_->finish());
  }
  Hdf5Image image = parse_described(child_->take_answer(), plan);
  kept_answers().keep(program_, description, plan.datasets, image);
  return image;
}

bool Hdf5Describer::may_know(std::uint64_t datasets) const {
  return kept_answers().may_know(program_, datasets);
}

std::optional<Hdf5Image> Hdf5Describer::relink(core::Bytes request, const DescribedPlan& plan) {
  if (request.size() > kMaxDescription) return std::nullopt;
  try {
    Hdf5Describer helper("relink");
    if (!helper.ask(request)) return std::nullopt;
    return parse_described(helper.child_->take_answer(), plan);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace ckpt::detail
