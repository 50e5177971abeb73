#pragma once
// Modules of two files that hold the same pairs: where a tensor of one lies in such a module, its partner is to be
// looked for in the other. Internal to align.
// Thread safety: immutable once built. Use: for (const Context& context : Contexts(pairing, trees).list(edits)) ...

#include <cstdint>
#include <vector>

#include "libckpt/analyze/align_parts.h"
#include "libckpt/analyze/align_same_names.h"

namespace ckpt::detail {

struct Context {
  std::size_t a = 0;      ///< module of A
  std::size_t b = 0;      ///< module of B
  std::size_t pairs = 0;  ///< that both hold
  bool only_own = false;  ///< the tensors of the modules themselves, not what lies below
};

class Contexts {
 public:
  Contexts(const Pairing& pairing, const ModuleTrees& trees);

  /// The narrowest first. Modules of the same name count under the edits that make other names equal.
  std::vector<Context> list(const std::vector<NameEdit>& edits) const;
  /// False when what is known of the modules around them says that the tensors belong elsewhere.
  bool may_pair(std::size_t i, std::size_t k) const;

 private:
  /// What a module knows of the pairs in it.
  struct Known {
    std::uint64_t sum = 0;  ///< the same for the same pairs
    std::size_t count = 0;
    std::size_t image = ModuleTree::kNone;  ///< the smallest module of the other file that holds their partners
    std::size_t widest = 0;                 ///< the largest module around this one with the same pairs
  };

  static void add_up(const ModuleTree& tree, const ModuleTree& other, std::vector<Known>& known);
  /// What the modules of a file know, and those of the other file.
  struct View {
    const ModuleTree& tree;
    const std::vector<Known>& known;
  };
  static bool points_to(const View& own, std::size_t unit, const View& other, std::size_t other_unit);
  void add_units(std::vector<Context>& out) const;
  void add_same_paths(const std::vector<NameEdit>& edits, std::vector<Context>& out) const;
  void add_same_pairs(std::vector<Context>& out) const;

  const Pairing& pairing_;
  const ModuleTrees& trees_;
  std::vector<Known> a_;
  std::vector<Known> b_;
};

}  // namespace ckpt::detail
