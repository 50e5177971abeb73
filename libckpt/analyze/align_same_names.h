#pragma once
// Which keys of two files are the same name: equal, or equal up to a prefix or suffix that most keys have ("module.",
// "model.", "_orig_mod."). Internal to align.
// Thread safety: pure. Use: for (auto [i, k] : same_names(pairing).pairs) ...

#include <string>
#include <utility>
#include <vector>

#include "libckpt/analyze/align_pairing.h"

namespace ckpt::detail {

/// What the names of A have that those of B do not, and the other way round; at the front or at the end.
struct NameEdit {
  std::string drop;
  std::string add;
  bool at_end = false;
  auto operator<=>(const NameEdit&) const = default;
};

struct SameNames {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::vector<NameEdit> edits;  ///< of the front only: they hold for modules too
};

/// Pairs whose shapes cannot be one another's are left out. Where two prefixes would do ("student.", "teacher."), the
/// values choose, and where they cannot there is no pair. Names win over values but for one case: files of different
/// keys of which most equal ones have values that belong to other keys.
SameNames same_names(const Pairing& pairing);

/// Nothing where the name does not have what is to be dropped.
std::optional<std::string> edited(const NameEdit& edit, std::string_view name);

/// `name` without components that wrappers leave anywhere in it: "a._orig_mod.b" is "a.b".
std::string without_wrappers(std::string_view name);

}  // namespace ckpt::detail
