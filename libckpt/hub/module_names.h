#pragma once
// ModuleNames: the modules of a model, as the names of its tensors say them, and how an adapter's configuration names
// some of them so that PEFT finds these and no others. Internal to libckpt/hub. Thread safety: immutable once filled.
// Use: ModuleNames names; names.add("layers.0.fc.weight"); JsonWriter json; names.write_targets(json, {"layers.0.fc"});

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/io/json.h"

namespace ckpt::detail {

class ModuleNames {
 public:
  void add(const std::string& tensor);

  /// Whether modules_to_save can name it: it holds tensors and no modules, and no other module's name ends as it does.
  bool can_be_saved(const std::string& module) const;
  /// Full names of the tensors of a module.
  const std::vector<std::string>& tensors_of(const std::string& module) const;

  /// The value of target_modules: last parts of names where all modules that end so are meant, whole names otherwise;
  /// one regular expression where another module's name ends as a whole name does.
  void write_targets(JsonWriter& json, const std::set<std::string>& modules) const;

 private:
  /// Whether PEFT takes none but `modules` for `target`.
  bool means_only(const std::string& target, const std::set<std::string>& modules) const;

  std::set<std::string> modules_;  ///< those around others too
  std::map<std::string, std::vector<std::string>> tensors_;
};

/// "layers.0.fc" of "layers.0.fc.weight"; "" of a name without a dot.
std::string module_of(std::string_view tensor);
/// What stands behind the last dot.
std::string last_part(std::string_view name);

}  // namespace ckpt::detail
