#pragma once
// Whether a file does what was promised of it, by libcore's loader: the strict load_state_dict into the model that
// PyTorch listed, and every tensor against the checksum that PyTorch recorded. Thread safety: pure.
// Use: std::string why = test::why_not_loaded(path, judged); EXPECT_EQ(why, "");

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/golden_json.h"

namespace test {

struct Judged {
  Json model;                          ///< record of the model, with "sums"
  std::vector<std::string> free = {};  ///< ends of keys whose values nothing tells
  std::string at = {};                 ///< the dict that the user named, where the file still has it
  bool ours = false;                   ///< the file may be of a format that PyTorch does not read
};

/// "" when the file loads strictly and every tensor is the one of the training; else why not. Values are compared only
/// where the load is right.
std::string why_not_loaded(const std::filesystem::path& file, const Judged& judged);

/// "" when a default torch.load (of .safetensors: load_file) gives a dict of tensors: nothing nested, nothing foreign,
/// no device that is not there. `ours` as above.
std::string why_no_dict_of_tensors(const std::filesystem::path& file, bool ours);

/// What load_state_dict says of the dict at the top of the file; nothing when that is no dict of tensors.
std::string message_of_load(const std::filesystem::path& file, Json model);

}  // namespace test
