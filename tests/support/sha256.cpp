#include "tests/support/sha256.h"

#include <nettle/sha2.h>

#include <array>
#include <cstdint>

namespace test {

std::string sha256(std::span<const std::byte> bytes) {
  sha256_ctx state;
  nettle_sha256_init(&state);
  nettle_sha256_update(&state, bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  nettle_sha256_digest(&state, digest.size(), digest.data());
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint8_t byte : digest) hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  return hex;
}

}  // namespace test
