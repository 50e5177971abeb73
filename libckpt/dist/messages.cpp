#include "libckpt/dist/messages.h"

#include "libcore/base/error.h"

namespace ckpt::dist {
namespace {

[[noreturn]] void cut() {
  throw core::Error(core::ErrorCode::corrupt, "a message of another rank is cut off");
}

}  // namespace

void MessageWriter::number(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
  out_.push_back(static_cast<char>(value));
}

void MessageWriter::text(std::string_view text) {
  number(text.size());
  out_.append(text);
}

std::uint64_t MessageReader::number() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) cut();
    auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  cut();
}

std::string_view MessageReader::text() {
  std::uint64_t size = number();
  if (size > rest_.size()) cut();
  std::string_view text = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return text;
}

std::uint64_t MessageReader::count() {
  std::uint64_t value = number();
  if (value > rest_.size()) cut();
  return value;
}

}  // namespace ckpt::dist
