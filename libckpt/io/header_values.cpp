#include "libckpt/io/header_values.h"

#include <cstdint>
#include <string>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

[[noreturn]] void refuse(const std::string& what, std::uint64_t most, const std::string& why) {
  throw core::Error(core::ErrorCode::refused, what + core::format_count(most) + why);
}

/// Counts commas and opening brackets, which are at least as many as the values.
class ValueCount {
 public:
  ValueCount(std::string_view text, const Limits& limits)
      : text_(text), limits_(limits), most_(most_header_values(text.size(), limits)) {}

  void run() {
    for (std::size_t at = 0; at < text_.size(); ++at) {
      switch (text_[at]) {
        case '"':
          at = skip_text(at);
          break;
        case '{':
        case '[':
          ++depth_;
          count();
          break;
        case '}':
        case ']':
          --depth_;
          break;
        case ',':
          count();
          break;
        default:
          break;
      }
    }
  }

 private:
  /// The closing quote. Notes which member of the top object begins.
  std::size_t skip_text(std::size_t at) {
    std::size_t begin = at;
    for (++at; at < text_.size() && text_[at] != '"'; ++at) {
      if (text_[at] == '\\') ++at;
    }
    if (depth_ == 1) {
      metadata_ = text_.substr(begin, at - begin) == "\"__metadata__";
      in_member_ = 0;
    }
    return at;
  }

  void count() {
    if (++all_ > most_) refuse("the JSON header has more than ", most_, " values, which is too many for its length");
    if (depth_ < 2) {
      if (++tensors_ > limits_.max_tensors + 2) refuse("the file has more than ", limits_.max_tensors, " tensors");
      return;
    }
    ++in_member_;
    if (metadata_ && in_member_ > kMaxHeaderTexts) {
      refuse("the metadata has more than ", kMaxHeaderTexts, " entries");
    }
    if (!metadata_ && in_member_ > kMaxHeaderFields) {
      refuse("a tensor of the JSON header has more than ", kMaxHeaderFields,
             " values, and no tensor has so many dimensions");
    }
  }

  std::string_view text_;
  const Limits& limits_;
  std::uint64_t most_;
  std::uint64_t all_ = 0;
  std::uint64_t tensors_ = 0;
  std::uint64_t in_member_ = 0;
  std::int64_t depth_ = 0;
  bool metadata_ = false;
};

}  // namespace

std::uint64_t most_header_values(std::uint64_t length, const Limits& limits) {
  const double factor = kJsonAllowance.per_byte * static_cast<double>(limits.max_expansion) / 100;
  return kJsonAllowance.free + static_cast<std::uint64_t>(static_cast<double>(length) * factor);
}

void check_header_values(std::string_view text, const Limits& limits) {
  ValueCount(text, limits).run();
}

}  // namespace ckpt::detail
