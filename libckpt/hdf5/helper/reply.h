#pragma once
// The frames that go to the parent, gathered in a buffer. Thread safety: one thread. Use: reply.begin(kFrameLink);
// put_count(reply.content(), parent); reply.end();

#include <cstdint>
#include <string_view>

#include "libckpt/hdf5/wire.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

class Reply {
 public:
  explicit Reply(int fd) : fd_(fd) {}

  void begin(FrameTag tag);
  /// Of the frame that was begun: append to it.
  core::ByteVector& content() { return buffer_; }
  void end();
  /// Forgets a frame that was begun and not ended.
  void drop_open_frame();

  /// Sends a frame as it is, however large, without a copy. REQUIRES: no frame is open.
  void send(FrameTag tag, core::Bytes content);

  /// Says what is attempted next and sends everything so far, so that the parent knows it should this process die.
  void stage(std::string_view text);
  /// Ends the process quietly when nobody listens any more.
  void flush();

 private:
  void write_all(core::Bytes bytes) const;

  int fd_;
  core::ByteVector buffer_;
  std::size_t frame_ = 0;  ///< where the open frame begins
  bool open_ = false;
};

}  // namespace ckpt::detail
