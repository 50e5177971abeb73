#pragma once
// ByteCursor: reads numbers and runs of bytes from a block, in order, and never past its end. Every parser of untrusted
// bytes goes through it. Thread safety: one owner; the block must outlive it. Use: ByteCursor in(header, "the index");
// auto count = in.take<std::uint32_t>();

#include <string>
#include <string_view>

#include "libcore/base/bytes.h"
#include "libcore/base/error.h"

namespace ckpt {

class ByteCursor {
 public:
  /// `what` names the block in messages: "the index ends at byte 12 where 8 more were expected".
  explicit ByteCursor(core::Bytes bytes, std::string_view what = "the data") : bytes_(bytes), what_(what) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t size() const { return bytes_.size(); }
  std::uint64_t remaining() const { return bytes_.size() - position_; }
  bool at_end() const { return position_ == bytes_.size(); }

  // All of these throw Error(corrupt) when fewer bytes are left, and then do not move.

  core::Bytes take_bytes(std::uint64_t count) {
    require(count);
    core::Bytes out = bytes_.subspan(position_, count);
    position_ += count;
    return out;
  }
  std::string_view take_text(std::uint64_t count) { return core::as_text(take_bytes(count)); }
  void skip(std::uint64_t count) { take_bytes(count); }
  /// A little-endian number.
  template <class T>
  T take() {
    return core::load_le<T>(take_bytes(sizeof(T)).data());
  }
  template <std::unsigned_integral T>
  T take_be() {
    return core::byte_swap(take<T>());
  }
  /// To an absolute position.
  void seek(std::uint64_t position) {
    if (position > bytes_.size()) fail(position - bytes_.size());
    position_ = position;
  }
  /// Looks without moving.
  template <class T>
  T peek() const {
    require(sizeof(T));
    return core::load_le<T>(bytes_.data() + position_);
  }

 private:
  void require(std::uint64_t count) const {
    if (count > remaining()) fail(count);
  }
  [[noreturn]] void fail(std::uint64_t count) const {
    throw core::Error(core::ErrorCode::corrupt, std::string(what_) + " ends at byte " + std::to_string(bytes_.size()) +
                                                    " where " + std::to_string(count) +
                                                    " more bytes were expected at byte " + std::to_string(position_));
  }

  core::Bytes bytes_;
  std::uint64_t position_ = 0;
  std::string_view what_;
};

}  // namespace ckpt
