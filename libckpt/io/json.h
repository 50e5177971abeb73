#pragma once
// JSON: a strict reader (duplicate keys, depth and exact integers checked; order kept) and a small deterministic
// writer. Thread safety: a document is immutable once parsed; views are valid as long as it. Use:
// ckpt::JsonDocument json = ckpt::JsonDocument::parse(text); for (auto& [key, value] : json.root().members()) ...

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/bytes.h"

namespace ckpt {

struct JsonOptions {
  std::uint64_t max_depth = 64;
  std::string_view what = "the JSON text";  ///< subject of messages
  std::uint64_t offset = 0;                 ///< where the text begins in its file, added to offsets in messages
};

/// A node of a document. Two words; copy it.
class JsonView {
 public:
  enum class Kind : std::uint8_t { null, boolean, integer, unsigned_integer, real, text, array, object };

  /// unsigned_integer only for numbers past the range of a signed one.
  Kind kind() const;
  bool is(Kind k) const { return kind() == k; }

  // REQUIRES: the kind fits.
  bool as_boolean() const;
  std::int64_t as_integer() const;
  std::uint64_t as_unsigned() const;  ///< of a non-negative integer of either kind
  double as_real() const;             ///< of any number
  std::string_view as_text() const;   ///< unescaped, valid as long as the document
  std::vector<JsonView> items() const;
  std::vector<std::pair<std::string_view, JsonView>> members() const;  ///< in the order of the text

  /// False for anything that is no object.
  bool has(std::string_view key) const;
  /// Error(corrupt) naming the key when this is no object or has none such.
  JsonView at(std::string_view key) const;
  /// A non-negative integer below 2^63, nothing else (not 1.0, not "1").
  bool is_count() const;

 private:
  friend class JsonDocument;
  struct Access;
  alignas(void*) std::byte node_[2 * sizeof(void*)] = {};
};

/// Where a member of the top object stands in the text.
struct JsonSpan {
  std::uint64_t key = 0;    ///< of the opening quote of the key
  std::uint64_t begin = 0;  ///< of the value
  std::uint64_t end = 0;
};

class JsonDocument {
 public:
  /// Parses all of `text`. Errors: Error(corrupt) for anything that is not one JSON value in UTF-8, for a key that an
  /// object has twice (with both byte offsets) and for -0; Error(refused) for nesting deeper than allowed. An integer
  /// past 64 bits is of kind real, the nearest one: Python writes "no limit" as 10^30.
  static JsonDocument parse(core::ByteVector text, const JsonOptions& options = {});
  static JsonDocument parse(std::string_view text, const JsonOptions& options = {});
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  JsonView root() const;
  /// The text as it was given.
  std::string_view text() const;
  /// Spans of the members of the top object, in order. REQUIRES: root() is an object.
  std::vector<JsonSpan> member_spans() const;

 private:
  struct State;
  explicit JsonDocument(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// "text" in quotes with what JSON demands escaped; bytes that are no UTF-8 become U+FFFD.
std::string json_quote(std::string_view text);
/// True for text that stands in JSON as it is: printable ASCII without quotes and backslashes.
bool is_plain_json(std::string_view text);
/// json_quote() behind what was written before, without a string of its own.
void append_json_text(std::string& out, std::string_view text);

/// Writes JSON as it is told to, comma and indentation by itself. Use: JsonWriter out; out.begin_object();
/// out.key("name").value("fc"); out.end_object(); out.text();
class JsonWriter {
 public:
  /// indent 0: one line without spaces.
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool value);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(int number) { return value(static_cast<std::int64_t>(number)); }
  /// Shortest text that reads back the same; null for infinities and NaN, which JSON does not have.
  JsonWriter& value(double number);
  JsonWriter& null();
  /// A value that already is JSON.
  JsonWriter& raw(std::string_view json);

  const std::string& text() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& quoted(std::string_view text, std::string_view behind);
  template <class Number>
  JsonWriter& digits(Number number);
  /// Of the value that comes now, which it takes for written.
  bool needs_comma();
  void before_value();
  void new_line();

  int indent_;
  int depth_ = 0;
  bool first_ = true;
  bool after_key_ = false;
  std::string out_;
};

}  // namespace ckpt
