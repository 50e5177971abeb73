#pragma once
// reindex: brings the index of a native file up to date after another program (h5py, HDFView) edited its HDF5 part.
// Names, shapes and values come from HDF5; order, device tags, versions, ties and plain values from the old index.
// Thread safety: one call at a time on a file. Use: ckpt::ReindexResult r = ckpt::reindex("net.ckpt");

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/limits.h"
#include "libckpt/report.h"

namespace ckpt {

struct ReindexOptions {
  std::filesystem::path output = {};  ///< "" = the file itself, replaced atomically
  bool overwrite = true;              ///< false: Error(io) when `output` exists
  bool durable = true;                ///< fsync of file and folder
  bool dry_run = false;               ///< find out, write nothing
  bool unsandboxed = false;           ///< as in OpenOptions
  Limits limits = {};
  unsigned threads = 0;  ///< 0 = all cores
  Progress progress = {};
  Report* report = nullptr;
};

struct ReindexResult {
  bool needed = false;  ///< the index and the HDF5 part did not agree; false: nothing was written
  std::uint64_t tensors = 0;
  std::vector<std::string> changed;                          ///< other values, shape or type
  std::vector<std::pair<std::string, std::string>> renamed;  ///< old name, new name
  std::vector<std::string> added;
  std::vector<std::string> removed;
};

/// A renamed dataset is told by its bytes lying where they were; one that was renamed and rewritten counts as removed
/// and added. New tensors go to the end of the dict that their name begins with. Errors: Error(unsupported) when the
/// file is not native, when the helper program is missing, and for a change that the tree cannot follow (a tensor
/// deleted from a list); Error(corrupt) for a damaged index or HDF5 part; Error(collision); Error(io).
ReindexResult reindex(const std::filesystem::path& path, const ReindexOptions& options = {});

}  // namespace ckpt
