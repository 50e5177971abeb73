#pragma once
// Saves that are to be ended in their midst, and what is found afterwards. Use: test::found_in(tried, path) == "old"

#include <filesystem>
#include <string>

#include "libckpt/ckpt.h"
#include "libckpt/dist/save.h"
#include "libckpt/io/atomic_folder.h"
#include "tests/libckpt/dist/samples.h"

namespace test {

struct Case {
  std::string layout;
  int ranks;
  bool overwrite;
  bool exchange;  ///< whether the file system exchanges names
};

inline ckpt::Value part_of(const Case& tried, int rank, float version) {
  if (tried.layout != "safetensors") return sample_part(rank, tried.ranks, version);
  return dict({{"model", *sample_whole(version).find("model")}});
}

inline ckpt::dist::SaveOptions options_of(const Case& tried, int rank) {
  ckpt::dist::SaveOptions options;
  options.layout = tried.layout;
  options.overwrite = tried.overwrite;
  options.threads = 1;
  options.io = ckpt::Io::buffered;
  if (tried.layout != "safetensors") options.pieces = sample_pieces(rank, tried.ranks);
  return options;
}

/// "old", "new", "none", or what else is there.
inline std::string found_in(const Case& tried, const std::filesystem::path& path) {
  if (!std::filesystem::exists(ckpt::moved_aside(path))) return "none";
  try {
    ckpt::Checkpoint checkpoint = ckpt::open(path);
    for (float version : {1.0F, 2.0F}) {
      ckpt::Value expected = tried.layout != "safetensors" ? sample_whole(version)
                                                           : dict({{"model", *sample_whole(version).find("model")}});
      ckpt::Value whole = checkpoint.root;
      if (tree_difference(expected, whole).empty() && ckpt::verify(path).damage.empty()) {
        return version == 1.0F ? "old" : "new";
      }
    }
    return "something else";
  } catch (const core::Error& error) {
    return error.what();
  }
}

}  // namespace test
