#pragma once
// The tokens of a model by text and by number. Thread safety: immutable once filled.
// Use: zoo::text::Vocabulary v; v.add("the", 5); v.id_of("the");

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libckpt/io/json.h"

namespace zoo::text {

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;  // no copies: numbers point to texts
  /// {"token": number}. Error(corrupt) for another form, and for a number that two tokens have.
  static Vocabulary from_json(ckpt::JsonView object);

  /// Error(corrupt) when another token has the number or the text is there already.
  void add(std::string_view text, std::int64_t id);

  std::optional<std::int64_t> id_of(std::string_view text) const;
  /// Null when no token has the number.
  const std::string* text_of(std::int64_t id) const;
  /// The numbers <0x00> to <0xFF> of the bytes; none unless all of `bytes` have one.
  std::optional<std::vector<std::int64_t>> ids_of_bytes(std::string_view bytes) const;
  std::size_t size() const { return ids_.size(); }
  /// One past the largest number.
  std::int64_t end() const { return end_; }
  template <class See>
  void each(See see) const {
    for (const auto& [text, id] : ids_) see(text, id);
  }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<std::int64_t, const std::string*> texts_;
  std::int64_t end_ = 0;
};

}  // namespace zoo::text
