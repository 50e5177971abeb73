#pragma once
// An .npz file taken apart: every member as an array, or the reason why it is none.
// Thread safety: immutable. Use: NpzArchive archive = open_npz(file, options);

#include <optional>
#include <string>
#include <vector>

#include "libckpt/format/flat_state.h"
#include "libckpt/format/npz/npy_array.h"
#include "libckpt/io/zip.h"
#include "libcore/base/error.h"

namespace ckpt::detail {

struct NpzMember {
  std::string name;                                     ///< without ".npy"
  SourcePtr file;                                       ///< the member's bytes
  std::shared_ptr<const Entry> entry;                   ///< null when it is no array
  std::string problem;                                  ///< then: why
  core::ErrorCode code = core::ErrorCode::unsupported;  ///< then: of which kind; refused for a pickle
};

inline constexpr std::string_view kNpyExtension = ".npy";

struct NpzArchive {
  ZipArchive zip;
  std::vector<NpzMember> members;  ///< in the order of the directory
};

/// What is remembered of a file so that members that do not change stay, or are written as they were, checksums
/// included.
struct NpzDetail final : FormatDetail {
  const ByteSource* file_read() const override { return file.get(); }

  SourcePtr file;
  std::optional<ZipArchive> zip;
  std::vector<NpzMember> members;  ///< those that are arrays, in the order of the directory
};

/// True when `entry` is still the array of the member.
bool holds_array(const NpzMember& member, const Entry& entry);

/// Errors: those of ZipArchive::open(); Error(refused) for more members than allowed.
NpzArchive open_npz(const SourcePtr& file, const OpenOptions& options);

/// NumPy's files have no place for that of a file.
void warn_about_metadata(const Checkpoint& checkpoint, Report* report);
/// A void type may be anything of its size.
void warn_about_void(const std::string& name, const Entry& entry, Report* report);

Checkpoint read_npz(const Input& input, const OpenOptions& options);
VerifyResult verify_npz(const Input& input, const OpenOptions& options, const Progress& progress);
void write_npz(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options);
std::vector<Obstacle> npz_obstacles(const Checkpoint& checkpoint, const SaveOptions& options);
/// Why a tensor of this name cannot be held.
std::optional<Obstacle> npz_obstacle(const std::string& name, const Entry& entry);
std::optional<FileEdit> edit_npz(const Checkpoint& checkpoint, const SaveOptions& options);

}  // namespace ckpt::detail
