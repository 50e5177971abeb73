#pragma once
// Address: a file as it is named on the command line, with the place inside it: "best.pth::model". "-" is standard
// input: a pipe is copied to an unlinked temporary file first ($TMPDIR, else /var/tmp), since a checkpoint is read from
// both ends; a redirected file is read where it is. An address of a file on another machine ("https://host/net.pth",
// "hf://org/repo") is kept as it is: nobody is asked before the file is opened.
// Thread safety: one thread. Use: Address address = parse_address("best.pth::model");

#include <filesystem>
#include <string>

namespace cli {

struct Address {
  std::filesystem::path path;  ///< what to open; of standard input a name under /proc
  std::string at;              ///< dotted path behind "::", "" for the whole file
  /// The file for messages and JSON: the path as it was typed, or "standard input".
  std::string shown() const;
  /// The same with the place inside it.
  std::string text() const { return at.empty() ? shown() : shown() + "::" + at; }
  bool is_standard_input() const;
};

/// Splits at the last "::", unless a file of the whole name exists. "-" copies standard input, once: two addresses of
/// it name the same bytes. Errors: Error(usage) when nothing stands before "::", an address holds a
/// password, or standard input is a terminal;
/// Error(io) when it cannot be read or there is no room for the copy.
Address parse_address(const std::string& text);

/// "standard input" for the path that stands for it, any other text as it is.
std::string shown_path(const std::string& path);

/// The name of one file that would hold the model: of a shard index "model.safetensors", of a distributed checkpoint
/// "FOLDER.pth" beside the folder, of any other file its own name; of a file on another machine without its folder.
/// Errors: those of ckpt::open_input() for a folder.
std::filesystem::path single_name(const std::filesystem::path& source);

/// "net.pth" -> "net.plain.pth" beside it; of a shard index the name of the single file: "model.plain.safetensors".
std::filesystem::path derived_name(const std::filesystem::path& source, const std::string& tag);

/// "run.dcp/" -> "run.dcp"; "/" stays.
std::string without_end_slashes(std::string name);

/// True when both name the same existing file, by whatever path.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace cli
