#pragma once
// ByteWindow: single bytes of a source anywhere, read 64 KiB at a time. For formats whose lengths nobody knows before
// they are read. Thread safety: one owner. Use: ByteWindow bytes(*file); std::byte first = bytes.at(0);

#include <algorithm>

#include "libckpt/io/byte_source.h"

namespace ckpt {

class ByteWindow {
 public:
  /// `source` must outlive it.
  explicit ByteWindow(const ByteSource& source) : source_(source) {}

  const ByteSource& source() const { return source_; }
  /// REQUIRES: `position` lies in the source. Errors: those of its read().
  std::byte at(std::uint64_t position) {
    if (position < begin_ || position - begin_ >= window_.size()) fill(position);
    return window_[position - begin_];
  }

 private:
  static constexpr std::uint64_t kSize = 64 << 10;

  void fill(std::uint64_t position) {
    begin_ = position;
    window_.resize(std::min(kSize, source_.size() - position));
    source_.read(position, window_);
  }

  const ByteSource& source_;
  std::uint64_t begin_ = 0;
  core::ByteVector window_;
};

}  // namespace ckpt
