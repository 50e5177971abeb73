#pragma once
// Tensors that neither names nor values pair, by their place: in modules that hold the same pairs, the only ones of
// their shape, those between the same neighbours, or those counted in the same way. Internal to align.
// Thread safety: one owner. Use: PlaceMatcher(pairing, {trees, layouts, edits}).run(PlaceMatcher::Values::equal);

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/analyze/align_contexts.h"
#include "libckpt/analyze/align_layouts.h"

namespace ckpt::detail {

class PlaceMatcher {
 public:
  struct Known {
    const ModuleTrees& trees;
    const Layouts& layouts;
    const std::vector<NameEdit>& edits;
  };
  enum class Values : std::uint8_t { equal, any };

  PlaceMatcher(Pairing& pairing, const Known& known);

  /// Pairs tensors of equal values, or of any, until nothing more is found.
  void run(Values values);

 private:
  using List = std::vector<std::size_t>;
  using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  /// Tensors that may be one another's.
  struct Class {
    List a;
    List b;
  };
  /// The paired neighbours of each tensor of a context in the order of the file, by their matches.
  using Gap = std::pair<std::size_t, std::size_t>;
  struct Gaps {
    std::unordered_map<std::size_t, Gap> a;
    std::unordered_map<std::size_t, Gap> b;
  };

  void count_lasts();
  std::string role(std::size_t i) const;
  std::vector<Class> classes(const Context& context, bool by_role) const;
  bool look_into(const Context& context);
  Pairs proposals(const Context& context, const Class& group, std::optional<Gaps>& gaps) const;
  static Pairs by_gaps(const Class& group, const Gaps& gaps);
  Gaps gaps_in(const Context& context) const;
  bool is_neighbour(const Context& context, std::size_t match) const;
  Pairs by_order(const Class& group) const;
  Pairs tied(const Class& group) const;
  std::optional<Match> step(std::size_t i, std::size_t k) const;
  bool is_foreign(std::size_t i, std::size_t k) const;
  bool accept(const Pairs& pairs);
  void close(const Context& context);

  Pairing& pairing_;
  Known known_;
  Values values_ = Values::equal;
  const Contexts* contexts_ = nullptr;
  bool ordered_ = false;        ///< both files list their tensors in the order of the model
  std::vector<char> closed_;    ///< matches in modules that are complete: their place in the file is their own
  std::vector<char> silent_a_;  ///< modules of A none of whose own tensors prove anything
  std::map<std::string, std::map<std::string, std::size_t>, std::less<>> last_votes_;  ///< what last components became
  std::set<std::string, std::less<>> lasts_a_;
  std::set<std::string, std::less<>> lasts_b_;
  std::size_t voted_ = 0;
};

}  // namespace ckpt::detail
