#include "libckpt/io/byte_sink.h"

#include <algorithm>

namespace ckpt {
namespace {
constexpr std::uint64_t kBuffer = 1 << 20;
}

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
}

}  // namespace ckpt
