#pragma once
// What a folder is by what lies in it: which file in it is the model, or a sentence that tells where the model is.
// Thread safety: pure. Use: FolderModel found = find_model(folder, names); if (!found.file.empty()) open(found.file);

#include <filesystem>
#include <string>
#include <vector>

namespace ckpt::detail {

struct FolderModel {
  std::string file = {};      ///< name of the one file that is or stands for the model, "" when there is none
  std::string sentence = {};  ///< what the folder is otherwise, and what to do; "" when nothing is known of it
};

/// Whether what one rank of FSDP wrote stands for the folder that it is in: the name ends in a number, and the file has
/// ShardedTensors. Never throws.
bool is_fsdp_part(const std::filesystem::path& file);

/// `names`: the folder's entries, sorted. Looks at names, and at the text of `latest` of a DeepSpeed folder, or what
/// Megatron-LM has for it, and the names in the folder that it says. The files that Hugging Face's libraries load come
/// before others, in their order. Of files whose names end in the
/// number of a rank the first is looked into. Never throws.
FolderModel find_model(const std::filesystem::path& folder, const std::vector<std::string>& names);

}  // namespace ckpt::detail
