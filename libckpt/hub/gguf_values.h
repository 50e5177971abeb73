#pragma once
// Typed GGUF metadata put together and taken apart. Internal to libckpt/hub. Thread safety: one owner. Use: GgufValues
// values; values.add_u32("llama.block_count", 32); std::optional<double> n = values.number("llama.block_count");

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/format/gguf/gguf_header.h"

namespace ckpt::detail {

class GgufValues {
 public:
  GgufValues() = default;
  explicit GgufValues(std::vector<GgufValue> values) : values_(std::move(values)) {}

  void add_text(std::string key, std::string_view text);
  void add_flag(std::string key, bool value);
  /// A whole number or a float32, as `type` says. Error(value) naming the key for one that the type does not hold.
  void add_number(std::string key, GgufValueType type, double number);
  void add_u32(std::string key, double number) { add_number(std::move(key), GgufValueType::u32, number); }
  void add_texts(std::string key, const std::vector<std::string>& texts);
  void add_floats(std::string key, const std::vector<float>& numbers);
  void add_integers(std::string key, const std::vector<std::int32_t>& numbers);
  void add_bytes(std::string key, core::Bytes bytes);

  const std::vector<GgufValue>& all() const { return values_; }
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Nothing where the key is absent. Error(corrupt) naming the key for a value of another type.
  std::optional<std::string> text(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;

 private:
  std::vector<GgufValue> values_;
};

}  // namespace ckpt::detail
