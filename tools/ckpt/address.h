#pragma once
// Address: a file as it is named on the command line, with the place inside it: "best.pth::model".
// Thread safety: pure. Use: Address address = parse_address("best.pth::model");

#include <filesystem>
#include <string>

namespace cli {

struct Address {
  std::filesystem::path path;
  std::string at;  ///< dotted path behind "::", "" for the whole file
  /// As it was typed: the subject of messages.
  std::string text() const { return at.empty() ? path.string() : path.string() + "::" + at; }
};

/// Splits at the last "::", unless a file of the whole name exists. Error(usage) when nothing stands before it.
Address parse_address(const std::string& text);

/// "net.pth" -> "net.plain.pth" beside it; of a shard index the name of the single file: "model.plain.safetensors".
std::filesystem::path derived_name(const std::filesystem::path& source, const std::string& tag);

/// True when both name the same existing file, by whatever path.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace cli
