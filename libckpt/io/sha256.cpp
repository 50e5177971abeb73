#include <nettle/sha2.h>

#include <array>

#include "libckpt/io/checksum.h"

namespace ckpt {

std::string sha256_hex(const ByteSource& source, const std::function<void(std::uint64_t done)>& progress) {
  sha256_ctx context;
  sha256_init(&context);
  std::uint64_t done = 0;
  for_each_part(source, [&](Bytes part) {
    sha256_update(&context, part.size(), reinterpret_cast<const std::uint8_t*>(part.data()));
    done += part.size();
    if (progress) progress(done);
  });
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&context, digest.size(), digest.data());
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace ckpt
