#pragma once
// GgufReader: numbers and texts of a header whose length nobody knows beforehand, through a window of 64 KiB over the
// file. Thread safety: one owner. Use: GgufReader in(*file); auto version = in.take<std::uint32_t>();

#include <algorithm>
#include <concepts>
#include <cstring>
#include <string>

#include "libckpt/io/byte_source.h"
#include "libcore/base/error.h"

namespace ckpt::detail {

class GgufReader {
 public:
  explicit GgufReader(const ByteSource& file) : file_(file) {}

  void set_big_endian(bool big_endian) { big_endian_ = big_endian; }
  const ByteSource& file() const { return file_; }
  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return file_.size() - position_; }

  // All of these throw Error(corrupt) when the file ends before.

  template <std::integral T>
  T take() {
    std::byte raw[sizeof(T)];
    copy(raw);
    if (big_endian_) std::reverse(raw, raw + sizeof(T));
    return core::load_le<T>(raw);
  }
  std::string take_text(std::uint64_t length) {
    require(length);
    std::string text(length, '\0');
    copy(MutableBytes(reinterpret_cast<std::byte*>(text.data()), text.size()));
    return text;
  }
  /// Appends `length` bytes as they are.
  void take_into(std::uint64_t length, core::ByteVector& out) {
    require(length);
    std::uint64_t known = out.size();
    out.resize(known + length);
    copy(MutableBytes(out).subspan(known));
  }
  /// Appends `count` numbers of `width` bytes, little-endian.
  void take_numbers(std::uint64_t count, std::uint32_t width, core::ByteVector& out) {
    std::uint64_t known = out.size();
    take_into(count * width, out);
    if (!big_endian_) return;
    for (auto at = out.begin() + static_cast<std::ptrdiff_t>(known); at != out.end(); at += width) {
      std::reverse(at, at + width);
    }
  }

 private:
  static constexpr std::uint64_t kWindow = 64 << 10;

  void require(std::uint64_t count) const {
    if (count <= remaining()) return;
    throw core::Error(core::ErrorCode::corrupt, "the file is cut off: its header needs " + std::to_string(count) +
                                                    " more bytes at byte " + std::to_string(position_) + " where " +
                                                    std::to_string(remaining()) + " are there");
  }

  void copy(MutableBytes out) {
    require(out.size());
    while (!out.empty()) {
      if (position_ < begin_ || position_ >= begin_ + window_.size()) fill();
      std::uint64_t skip = position_ - begin_;
      std::uint64_t count = std::min<std::uint64_t>(out.size(), window_.size() - skip);
      std::memcpy(out.data(), window_.data() + skip, count);
      position_ += count;
      out = out.subspan(count);
    }
  }

  void fill() {
    begin_ = position_;
    window_.resize(std::min(kWindow, file_.size() - begin_));
    file_.read(begin_, window_);
  }

  const ByteSource& file_;
  bool big_endian_ = false;
  std::uint64_t position_ = 0;
  std::uint64_t begin_ = 0;
  core::ByteVector window_;
};

}  // namespace ckpt::detail
