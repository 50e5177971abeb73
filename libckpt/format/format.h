#pragma once
// Format: one row of the table of formats. A format is a folder beside this file that knows how to find itself in a
// file's first bytes, read a Checkpoint, say what it cannot hold, write one, and verify one. registry.cpp lists them
// all. Thread safety: rows are constants. Use: const ckpt::Format* f = ckpt::find_format("safetensors");

#include <cstdint>
#include <filesystem>
#include <optional>
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
  bool from_folder = false;        ///< a folder was named, and `path` stands for it
};

/// Opens `path`, a file or the folder of a model. Errors: those of resolve_folder(); Error(io).
Input open_input(const std::filesystem::path& path, const OpenOptions& options = {});

struct FileEdit;
struct SetEdit;

/// What becomes of objects of unknown classes among the values.
enum class CarriedObjects : std::uint8_t {
  left_out,
  if_asked,   ///< they can be held, and are written where the caller wants it
  passed_on,  ///< written as they were read
};

/// What in Python makes a dict of tensors of a file.
enum class PythonReader : std::uint8_t { none, libckpt, torch_load, torch_jit, safetensors, numpy, gguf, h5py };

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
  /// The edit of the file that `checkpoint` was read from which makes it hold what write() would, and moves no tensor
  /// but a few at the front; nullopt where more would move. Null for a format whose files are always written whole.
  /// REQUIRES: as write(); the detail of the checkpoint has a file_read().
  std::optional<FileEdit> (*edit)(const Checkpoint& checkpoint, const SaveOptions& options) = nullptr;
  /// The same of a checkpoint of several files: what changes in each, and the new index. Null for a format without.
  std::optional<SetEdit> (*edit_set)(const Checkpoint& checkpoint, const std::filesystem::path& index,
                                     const SaveOptions& options) = nullptr;
  /// The edit that takes off what an edit() appended last; nullopt where the file does not end so. Null for a format
  /// whose edits do more than append.
  std::optional<FileEdit> (*cut_appended)(const Input& input) = nullptr;
  VerifyResult (*verify)(const Input& input, const OpenOptions& options, const Progress& progress) = nullptr;
  bool holds_blocks = false;       ///< entries with `blocks` may come to obstacles() and write()
  bool packs = false;              ///< whether it can be written with a codec
  bool packs_floats = false;       ///< and with the codec fast
  bool splits = false;             ///< whether it can be written as several files
  bool holds_metadata = true;      ///< whether Checkpoint::metadata has a place; else write() warns that it is left out
  bool takes_late_texts = false;   ///< whether write() asks late_texts() behind the tensors; save() does so before it
  bool holds_views = false;        ///< whether a tensor with a view is written as its storage, never unfolded
  bool holds_parity = false;       ///< whether it can be written with parity data
  bool holds_lone_tensor = false;  ///< whether the top may be a tensor without a name
  bool has_checksums = false;      ///< whether it keeps a checksum of every tensor, which readers compare
  bool several_files = false;      ///< whether a checkpoint of it is a folder, or an index and its shards
  bool is_folder = false;          ///< whether write() makes a folder of the name that it is given
  bool edits_in_place = true;      ///< false: what write() makes of an edit is not laid out as what was there
  bool torch_save = false;         ///< whether torch.save writes it, or once did
  bool objects_beside = false;     ///< whether tensors have dotted names, and all else lies beside them as objects
  CarriedObjects objects = CarriedObjects::left_out;
  PythonReader python = PythonReader::none;
  std::string_view edited_part = {};  ///< what edit() or edit_set() writes: "header"
  std::string_view writes_as = {};    ///< of one that is only read: the format in which an edit of it is written
  std::string_view one_file_as = {};  ///< of several files: the format that holds the same in one
  std::string_view listed_as = {};    ///< what a list of facts calls it, where title and name would mislead
  /// Bytes of the file that saving the checkpoint afresh would free. Null where nobody has counted.
  std::uint64_t (*unused)(const Checkpoint& checkpoint) = nullptr;
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
