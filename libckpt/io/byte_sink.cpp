#include "libckpt/io/byte_sink.h"

#include <algorithm>

namespace ckpt {
namespace {
constexpr std::uint64_t kBuffer = 1 << 20;
constexpr std::uint64_t kSmall = 64 << 10;
}  // namespace

void ByteSink::write_from(const ByteSource& source) {
  Bytes memory = source.memory();
  if (!memory.empty()) return write(memory);
  core::ByteVector buffer(std::min(kBuffer, source.size()));
  for (std::uint64_t done = 0; done < source.size();) {
    MutableBytes part = MutableBytes(buffer).first(std::min<std::uint64_t>(buffer.size(), source.size() - done));
    source.read(done, part);
    write(part);
    done += part.size();
  }
  source.require_unchanged();
}

void BufferedSink::write(Bytes bytes) {
  if (buffer_.size() + bytes.size() > kBuffer) flush();
  if (bytes.size() >= kSmall) {
    flush();
    inner_.write(bytes);
  } else {
    core::append(buffer_, bytes);
  }
}

void BufferedSink::write_from(const ByteSource& source) {
  if (source.size() >= kSmall) {
    flush();
    inner_.write_from(source);
  } else {
    if (buffer_.size() + source.size() > kBuffer) flush();
    std::size_t old = buffer_.size();
    buffer_.resize(old + source.size());
    source.read(0, MutableBytes(buffer_).subspan(old));
    source.require_unchanged();
  }
}

void BufferedSink::flush() {
  if (!buffer_.empty()) inner_.write(buffer_);
  buffer_.clear();
}

}  // namespace ckpt
