#pragma once
// Size2: the height and width of a kernel, stride or padding, given as one number for both or as two.
// Thread safety: plain value. Use: core::Size2 k = 3; core::Size2 s = {2, 1}; k.str() == "3"; s.str() == "(2, 1)";

#include <cstdint>
#include <string>

namespace core {

class Size2 {
 public:
  /// Not given.
  Size2() = default;
  Size2(std::int64_t both) : h_(both), w_(both), given_(true) {}  // NOLINT(google-explicit-constructor)
  Size2(std::int64_t h, std::int64_t w) : h_(h), w_(w), given_(true), pair_(true) {}

  bool given() const { return given_; }
  std::int64_t h() const { return h_; }
  std::int64_t w() const { return w_; }
  /// As it was given: "3" or "(2, 1)".
  std::string str() const { return pair_ ? tuple() : std::to_string(h_); }
  /// "(3, 3)".
  std::string tuple() const { return "(" + std::to_string(h_) + ", " + std::to_string(w_) + ")"; }

  friend bool operator==(const Size2& a, const Size2& b) { return a.h_ == b.h_ && a.w_ == b.w_; }

 private:
  std::int64_t h_ = 0;
  std::int64_t w_ = 0;
  bool given_ = false;
  bool pair_ = false;
};

}  // namespace core
