#pragma once
// SHA-256, in which golden data states what bytes must be. Thread safety: pure. Use: test::sha256(bytes) ==
// "9f86d0...".

#include <cstddef>
#include <span>
#include <string>

namespace test {

/// 64 lower-case hexadecimal digits.
std::string sha256(std::span<const std::byte> bytes);

}  // namespace test
