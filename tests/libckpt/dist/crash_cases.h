#pragma once
// Saves that are to be ended in their midst, and what is found afterwards. Use: test::found_in(tried, path) == "old"

#include <gtest/gtest.h>
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
  bool exchange;   ///< whether the file system exchanges names
  int shards = 0;  ///< that one process writes for as many ranks, as ckpt convert does; 0: every rank writes its own
};

inline std::string case_name(const testing::TestParamInfo<Case>& info) {
  const Case& tried = info.param;
  return tried.layout + "_" + std::to_string(tried.ranks) + (tried.overwrite ? "_over" : "_new") +
         (tried.exchange ? "" : "_without_exchange") +
         (tried.shards > 0 ? "_by_one_for_" + std::to_string(tried.shards) : "");
}

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

/// What one rank does of a save; of one for others the only rank does all.
inline void save_of(const Case& tried, ckpt::dist::Ranks& ranks, const ckpt::Value& mine,
                    const std::filesystem::path& path) {
  ckpt::dist::SaveOptions options = options_of(tried, ranks.rank());
  if (tried.shards == 0) {
    ckpt::dist::save_by(ranks, mine, path, options);
    return;
  }
  ckpt::Checkpoint whole;
  whole.root = mine;
  ckpt::SaveOptions alone;
  alone.format = tried.layout == "native" ? "parts" : tried.layout;
  alone.overwrite = tried.overwrite;
  alone.shards = static_cast<std::uint32_t>(tried.shards);
  alone.threads = options.threads;
  alone.io = options.io;
  ckpt::save(whole, path, alone);
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
