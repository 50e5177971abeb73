#include "libckpt/hdf5/helper/reply.h"

#include <unistd.h>

#include <cerrno>

#include "libckpt/hdf5/helper/handle.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kFlushFrom = 256 << 10;
constexpr std::size_t kMaxStage = 300;

void require_length(std::size_t length) {
  if (length > UINT32_MAX) throw Failure{kFailureRefused, "the description of one object is larger than 4 GiB"};
}

}  // namespace

void Reply::begin(FrameTag tag) {
  frame_ = buffer_.size();
  open_ = true;
  buffer_.push_back(static_cast<std::byte>(tag));
  core::append_le<std::uint32_t>(buffer_, 0);
}

void Reply::end() {
  std::size_t length = buffer_.size() - frame_ - kFrameHead;
  require_length(length);
  core::store_le(buffer_.data() + frame_ + 1, static_cast<std::uint32_t>(length));
  open_ = false;
  if (buffer_.size() >= kFlushFrom) flush();
}

void Reply::drop_open_frame() {
  if (open_) buffer_.resize(frame_);
  open_ = false;
}

void Reply::send(FrameTag tag, core::Bytes content) {
  require_length(content.size());
  begin(tag);
  core::store_le(buffer_.data() + frame_ + 1, static_cast<std::uint32_t>(content.size()));
  open_ = false;
  flush();
  write_all(content);
}

void Reply::stage(std::string_view text) {
  begin(kFrameStage);
  core::append(buffer_, core::as_bytes(text.substr(0, kMaxStage)));
  end();
  flush();
}

void Reply::flush() {
  write_all(buffer_);
  buffer_.clear();
}

void Reply::write_all(core::Bytes bytes) const {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(4);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace ckpt::detail
