#pragma once
// IndexMentions: which file names the indexes in a folder mention (model.safetensors.index.json and its like), to be
// asked before a shard is removed. In doubt a name is mentioned. Internal to libckpt. Thread safety: one owner.
// Use: IndexMentions mentions("net"); if (!mentions.holds("m-1")) ...

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>

namespace ckpt::detail {

class IndexMentions {
 public:
  /// Reads every file of the folder that is an index by its name, but not `skipped` ("" = none). Never throws for what
  /// cannot be read.
  explicit IndexMentions(const std::filesystem::path& folder, const std::string& skipped = "");
  /// Takes in an index that is not in the folder yet.
  void add_text(std::string_view index);
  /// True when an index holds the name as a JSON text, or might.
  bool holds(const std::string& name) const;

 private:
  void add(const std::filesystem::path& index);

  std::unordered_set<std::string> texts_;
  bool in_doubt_ = false;    ///< something could not be read
  bool has_others_ = false;  ///< indexes of other writers
};

/// A plain file name that JSON writes as it is: no path, no quotes, no control characters.
bool is_plain_name(std::string_view name);

}  // namespace ckpt::detail
