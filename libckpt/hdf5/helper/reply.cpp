#include "libckpt/hdf5/helper/reply.h"

#include <unistd.h>

#include <cerrno>

#include "libckpt/hdf5/helper/handle.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kFlushFrom = 256 << 10;
constexpr std::size_t kMaxStage = 300;

}  // namespace

void Reply::begin(FrameTag tag) {
  frame_ = buffer_.size();
  open_ = true;
  buffer_.push_back(static_cast<std::byte>(tag));
  core::append_le<std::uint32_t>(buffer_, 0);
}

void Reply::end() {
  std::size_t length = buffer_.size() - frame_ - kFrameHead;
  if (length > UINT32_MAX) throw Failure{kFailureRefused, "the description of one object is larger than 4 GiB"};
  core::store_le(buffer_.data() + frame_ + 1, static_cast<std::uint32_t>(length));
  open_ = false;
  if (buffer_.size() >= kFlushFrom) flush();
}

void Reply::drop_open_frame() {
  if (open_) buffer_.resize(frame_);
  open_ = false;
}

void Reply::stage(std::string_view text) {
  begin(kFrameStage);
  core::append(buffer_, core::as_bytes(text.substr(0, kMaxStage)));
  end();
  flush();
}

void Reply::flush() {
  core::Bytes left = buffer_;
  while (!left.empty()) {
    ssize_t n = ::write(fd_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(4);
    left = left.subspan(static_cast<std::size_t>(n));
  }
  buffer_.clear();
}

}  // namespace ckpt::detail
