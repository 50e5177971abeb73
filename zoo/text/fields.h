#pragma once
// The members of a JSON object of a tokenizer's file: each is known or refused by name, and of the kind it must be.
// Thread safety: a view, valid as long as the document. Use: Fields f(view, "the model", {"type", "vocab"});

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/io/json.h"

namespace zoo::text {

class Fields {
 public:
  /// Error(corrupt) for what is no object; Error(unsupported) naming a member that is not `known` (null and false count
  /// as not there).
  Fields(ckpt::JsonView object, std::string what, std::initializer_list<std::string_view> known);
  /// Whatever the members are.
  Fields(ckpt::JsonView object, std::string what);

  const std::string& what() const { return what_; }
  /// There and not null.
  bool has(std::string_view key) const;
  // Errors: Error(corrupt) naming the member that is missing or of another kind.
  ckpt::JsonView at(std::string_view key) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;
  std::uint64_t count_or(std::string_view key, std::uint64_t otherwise) const;
  std::vector<ckpt::JsonView> list(std::string_view key) const;

 private:
  ckpt::JsonView object_;
  std::string what_;
};

/// Error(corrupt) unless `view` is a text.
std::string text_of(ckpt::JsonView view, const std::string& what);
/// A token's number. Error(corrupt) unless it is a whole number below 2^31.
std::int64_t id_of(ckpt::JsonView view, const std::string& what);

}  // namespace zoo::text
