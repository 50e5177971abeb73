#include "libckpt/transform/glob_parts.h"

#include <algorithm>
#include <cctype>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using PartKind = GlobPart::Kind;

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

class GlobParser {
 public:
  explicit GlobParser(std::string_view text) : text_(text) {}

  std::vector<GlobPart> run() {
    while (at_ < text_.size()) step();
    return std::move(parts_);
  }

 private:
  void step() {
    char c = text_[at_];
    if (c == '\\' && at_ + 1 < text_.size()) {
      add_literal(text_[at_ + 1]);
      at_ += 2;
    } else if (c == '*') {
      parts_.push_back({PartKind::star, ""});
      while (at_ < text_.size() && text_[at_] == '*') ++at_;
    } else if (c == '?') {
      parts_.push_back({PartKind::one, ""});
      ++at_;
    } else if (c == '{') {
      add_field();
    } else if (c != '[' || !add_set()) {
      add_literal(c);
      ++at_;
    }
  }

  void add_literal(char c) {
    if (parts_.empty() || parts_.back().kind != PartKind::literal) parts_.push_back({PartKind::literal, ""});
    parts_.back().text += c;
  }

  /// As glob.cpp: a '[' that is not closed is an ordinary character.
  bool add_set() {
    std::size_t first = at_ + 1 < text_.size() && text_[at_ + 1] == '!' ? at_ + 2 : at_ + 1;
    std::size_t end = text_.find(']', first + 1);
    if (end == std::string_view::npos) return false;
    parts_.push_back({PartKind::set, std::string(text_.substr(at_, end + 1 - at_))});
    at_ = end + 1;
    return true;
  }

  void add_field() {
    std::size_t end = text_.find('}', at_);
    std::string_view name = text_.substr(at_ + 1, (end == std::string_view::npos ? text_.size() : end) - at_ - 1);
    bool number = name.starts_with('#');
    if (number) name.remove_prefix(1);
    bool valid = end != std::string_view::npos && !name.empty() && std::all_of(name.begin(), name.end(), is_name_char);
    if (!valid) {
      throw Error(ErrorCode::usage, "the pattern " + core::quote(text_) +
                                        " has a '{' that begins no {name} or {#number}; write '\\{' for the character");
    }
    parts_.push_back({PartKind::field, std::string(name), number});
    at_ = end + 1;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<GlobPart> parts_;
};

}  // namespace

std::vector<GlobPart> parse_glob(std::string_view text) {
  return GlobParser(text).run();
}

}  // namespace ckpt::detail
