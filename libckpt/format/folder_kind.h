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

/// `names`: the folder's entries, sorted. Looks at names, and at the text of `latest` of a DeepSpeed folder, or what
/// Megatron-LM has for it, and the names in the folder that it says. The files that Hugging Face's libraries load come
/// before others, in their order. Never throws.
FolderModel find_model(const std::filesystem::path& folder, const std::vector<std::string>& names);

}  // namespace ckpt::detail
