#pragma once
// Format: one row of the table of formats. A format is a folder beside this file that knows how to find itself in a
// file's first bytes, read a Checkpoint, say what it cannot hold, write one, and verify one. registry.cpp lists them
// all. Thread safety: rows are constants. Use: const Format* f = find_format("safetensors");

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/obstacle.h"
#include "libckpt/options.h"

namespace ckpt {

class Budget;

/// An opened input, before anybody knows what it is.
struct Input {
  std::filesystem::path path;
  SourcePtr file;
  core::ByteVector head;           ///< the first 4,096 bytes, fewer when the file is shorter
  std::shared_ptr<Budget> budget;  ///< what this opening may still take
};

/// Opens `path`, a file or the folder of a model. Errors: those of resolve_folder(); Error(io).
Input open_input(const std::filesystem::path& path, const OpenOptions& options = {});

struct Format {
  std::string_view name;                         ///< "torch-zip"; the same names as in reports and --json
  std::string_view title;                        ///< for a person: "PyTorch zip checkpoint"
  std::span<const std::string_view> extensions;  ///< ".pth", ...; the first is the default
  /// True when the input is of this format. Looks at content only; must not throw on any bytes. May read beyond the
  /// head.
  bool (*detect)(const Input& input) = nullptr;
  Checkpoint (*read)(const Input& input, const OpenOptions& options) = nullptr;
  /// Everything that would be lost. Empty means that write() will keep all. Null when the format is read-only.
  std::vector<Obstacle> (*obstacles)(const Checkpoint& checkpoint, const SaveOptions& options) = nullptr;
  /// REQUIRES: obstacles() is empty or options.drop_inexpressible. Null when the format is read-only.
  void (*write)(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) = nullptr;
  VerifyResult (*verify)(const Input& input, const OpenOptions& options, const Progress& progress) = nullptr;
  bool holds_blocks = false;   ///< entries with `blocks` may come to obstacles() and write()
  bool packs = false;          ///< whether it can be written with a codec
  bool splits = false;         ///< whether it can be written as several files
  bool holds_metadata = true;  ///< whether Checkpoint::metadata has a place; else write() warns that it is left out
  bool holds_views = false;    ///< whether a tensor with a view is written as its storage, never unfolded
};

/// All formats, in the order in which they are asked whether an input is theirs.
std::span<const Format* const> formats();
/// By name, or null.
const Format* find_format(std::string_view name);
/// By the extension of a target that is to be written, or null.
const Format* find_format_for(const std::filesystem::path& target);
/// What `format` cannot hold, opaque blocks included. Empty for a format that is not written.
std::vector<Obstacle> find_obstacles(const Format& format, const Checkpoint& checkpoint, const SaveOptions& options);
/// By content. Error(unsupported | corrupt) says what the file is instead (a git-LFS pointer, an HTML page, gzip, ...).
const Format& detect_format(const Input& input);

}  // namespace ckpt
