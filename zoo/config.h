#pragma once
// What a model is built from, as data: the keyword arguments of its constructor, as torchvision, timm, nanoGPT and the
// config.json of a Hugging Face folder have them; and a reader that knows which of them a family has looked at.
// Thread safety: values; a Fields has one user.
// Use: zoo::Config config = zoo::Config::parse(R"({"hidden_size": 64})"); auto net = zoo::make("LlamaForCausalLM",
// config);

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ckpt {
class JsonDocument;
}

namespace zoo {

/// Names and values of fields in order. A field that is null counts as one that is not there.
class Config {
 public:
  Config() = default;
  /// One JSON object; `what` is the subject of messages. Errors: Error(corrupt) for anything else; those of
  /// ckpt::JsonDocument.
  static Config parse(std::string_view json, std::string_view what = "the configuration");
  /// The object in a file, which has at most 16 MiB. Errors: those of parse(), Error(io), Error(refused) for a larger
  /// file; all name the file.
  static Config read(const std::filesystem::path& file);

  bool has(std::string_view name) const { return json_of(name) != nullptr; }
  /// The JSON text of a field; null when it is not there or is null.
  const std::string* json_of(std::string_view name) const;
  /// Whether the field is there and null, where that is not the same as absent.
  bool is_null(std::string_view name) const;
  /// Of a field that is a text: what it says. nullopt when it is none.
  std::optional<std::string> text_of(std::string_view name) const;
  /// Sets a field to a value in JSON, which is not checked before it is read.
  void set(std::string name, std::string json);
  /// These fields, and those of `over` in the place of fields of the same names.
  Config with(const Config& over) const;
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }
  /// One JSON object.
  std::string json() const;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;  ///< names and values in JSON
};

/// Reads a configuration for one family. Every function takes what a field is where it is absent. Errors: Error(usage)
/// naming the field for a value of another kind or outside its range; Error(unsupported) naming it for a value whose
/// feature the family does not have here.
class Fields {
 public:
  static constexpr std::int64_t kDeepest = 10000;  ///< the most layers that a field may ask for

  Fields(std::string_view family, const Config& config) : family_(family), config_(config) {}

  const std::string& family() const { return family_; }
  bool has(std::string_view name) const { return config_.has(name); }
  bool is_null(std::string_view name) const { return config_.is_null(name); }

  /// A size: least .. 2^31 - 1.
  std::int64_t count(std::string_view name, std::int64_t fallback, std::int64_t least = 1);
  /// A number of layers: 1 .. kDeepest.
  std::int64_t depth(std::string_view name, std::int64_t fallback);
  double number(std::string_view name, double fallback);
  /// least .. most.
  double number(std::string_view name, double fallback, std::int64_t least, std::int64_t most);
  /// 0 .. 1.
  double probability(std::string_view name, double fallback) { return number(name, fallback, 0, 1); }
  /// By what a width or a depth is multiplied: 0 .. 1000.
  double factor(std::string_view name, double fallback) { return number(name, fallback, 0, 1000); }
  bool flag(std::string_view name, bool fallback);
  std::string word(std::string_view name, std::string_view fallback);
  /// One of `known`.
  std::string choice(std::string_view name, std::string_view fallback, std::initializer_list<std::string_view> known);
  /// Sizes; one number stands for a list of one.
  std::vector<std::int64_t> counts(std::string_view name, std::vector<std::int64_t> fallback);
  /// Numbers of layers, 1 .. kDeepest each.
  std::vector<std::int64_t> depths(std::string_view name, std::vector<std::int64_t> fallback);
  /// The side of a square: one number or several that are the same.
  std::int64_t square(std::string_view name, std::int64_t fallback);
  std::vector<bool> flags(std::string_view name, std::vector<bool> fallback);
  /// The value itself (libckpt/io/json.h); nullopt when it is absent.
  std::optional<ckpt::JsonDocument> value(std::string_view name);
  /// How many members an object has; `fallback` when it is absent.
  std::int64_t members(std::string_view name, std::int64_t fallback);

  /// The field has no other value here than this, in JSON ("false", "\"absolute\"").
  void only(std::string_view name, std::string_view json);
  /// What has no part in what a model computes: marked as read.
  void pass(std::initializer_list<std::string_view> names);
  /// Error(unsupported) naming a field that nobody has read.
  void finish() const;

  [[noreturn]] void refuse(std::string_view name, const std::string& why) const;
  /// Error(usage) unless `whole` is a multiple of `part`; both are named in the message.
  void divides(std::string_view part_name, std::int64_t part, std::string_view whole_name, std::int64_t whole) const;

 private:
  std::optional<ckpt::JsonDocument> take(std::string_view name);
  [[noreturn]] void mistaken(std::string_view name, const std::string& wanted) const;

  std::string family_;
  const Config& config_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace zoo
