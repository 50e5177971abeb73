#pragma once
// The text form of a hash, read back. Thread safety: pure.
// Use: std::optional<ckpt::Hash128> hash = ckpt::hash_from_hex("000102030405060708090a0b0c0d0e0f");

#include <optional>
#include <string_view>

#include "libckpt/io/checksum.h"

namespace ckpt {

/// What to_hex() was given; nullopt for anything but 32 hexadecimal digits.
std::optional<Hash128> hash_from_hex(std::string_view digits);

}  // namespace ckpt
