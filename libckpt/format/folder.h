#pragma once
// Opening a folder: a model that is spread over several files is named by its folder as well as by its index.
// Thread safety: pure. Use: path = resolve_folder(path);

#include <filesystem>
#include <string>

#include "libckpt/io/folder_file.h"
#include "libckpt/options.h"

namespace ckpt {

/// `path` itself unless it is a folder; else the one file in it that is or describes a model: an index (*.index.json),
/// the .metadata of a distributed checkpoint, model.safetensors, an adapter, the only file of weights. Errors:
/// Error(unsupported) saying what the folder is and what to do, or what was looked for and what is there instead;
/// Error(corrupt) for a distributed checkpoint whose save never finished; Error(usage) naming all candidates when there
/// are several; Error(io).
std::filesystem::path resolve_folder(const std::filesystem::path& path);

/// The file that stands for `path` in a command line or a program: of a folder of one model file that file, any other
/// path as it is (a distributed checkpoint is named by its folder, and what lies on another machine as it was named).
/// Never throws.
std::filesystem::path named_file(const std::filesystem::path& path);

namespace detail {

/// How far the files of a folder may lead.
inline Links links_of(const OpenOptions& options) {
  return options.allow_symlinks ? Links::anywhere : Links::inside;
}

/// One of the files that a checkpoint in `folder` is spread over, read as the options say. Errors: as open_in_folder().
SourcePtr open_part(const std::filesystem::path& folder, const std::string& name, const OpenOptions& options,
                    const std::string& named_by);

}  // namespace detail

}  // namespace ckpt
