#pragma once
// Where modules go when keys are renamed, told from the keys: versions (_metadata) follow. Internal. Thread safety: one
// writer. Use: ModuleMoves moves; moves.add("a.fc.weight", "b.fc.weight"); moves.moved("a.fc") == "b.fc";

#include <optional>
#include <string>
#include <unordered_map>

namespace ckpt::detail {

class ModuleMoves {
 public:
  void add(const std::string& from, const std::string& to);
  /// The new path of a module; the old one when its keys stayed, or went to different places.
  std::string moved(const std::string& path) const;

 private:
  void note(std::string path, std::optional<std::string> target);
  std::unordered_map<std::string, std::optional<std::string>> moves_;
};

}  // namespace ckpt::detail
