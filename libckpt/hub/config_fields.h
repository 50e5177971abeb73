#pragma once
// ConfigFields: what the JSON files of a Hugging Face folder say. A field that is null counts as one that is not there.
// Internal to libckpt/hub. Thread safety: immutable once read. Use: auto config = ConfigFields::read(folder,
// "config.json", links); double heads = config->number("num_attention_heads").value();

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/io/folder_file.h"
#include "libckpt/io/json.h"

namespace ckpt::detail {

class ConfigFields {
 public:
  /// nullopt when the folder has no such file. Errors: Error(corrupt) for anything but one JSON object, Error(refused)
  /// for a file above 256 MiB; those of open_in_folder(). All name the file.
  static std::optional<ConfigFields> read(const std::filesystem::path& folder, const std::string& file, Links links);

  JsonView root() const { return document_.root(); }
  /// Null where the field is absent; those of "rope_parameters" and "rope_scaling" lie beside the others.
  std::optional<JsonView> find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name).has_value(); }

  // Error(corrupt) naming the file and the field for a value of another kind.
  std::optional<double> number(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  bool flag(std::string_view name, bool fallback) const;
  std::vector<double> numbers(std::string_view name) const;

  [[noreturn]] void refuse(std::string_view name, const std::string& why) const;

 private:
  ConfigFields(std::string file, JsonDocument document) : file_(std::move(file)), document_(std::move(document)) {}
  [[noreturn]] void mistaken(std::string_view name, std::string_view wanted) const;

  std::string file_;
  JsonDocument document_;
};

/// The bytes of a file of the folder; nullopt when there is none.
std::optional<core::ByteVector> read_hub_file(const std::filesystem::path& folder, const std::string& file,
                                              Links links);

bool is_number(const JsonView& value);
/// A member of an object that is not null.
std::optional<JsonView> member(const JsonView& object, std::string_view name);
/// The text of a member, where it is one.
std::optional<std::string> member_text(const JsonView& object, std::string_view name);
/// Whether a member is true.
bool member_flag(const JsonView& object, std::string_view name);

}  // namespace ckpt::detail
