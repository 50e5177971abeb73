#pragma once
// Attempt: the keys of one dict of a file against the keys that are wanted, while causes are found one after the other.
// Each cause changes the keys as its steps would change the file, so that the next one sees what is left.
// Thread safety: one owner. Use: Attempt attempt(file_keys, table); find_name_causes(attempt); find_leftovers(attempt);

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libckpt/analyze/why.h"

namespace ckpt::detail {

struct FileKey {
  std::string name;
  core::Shape shape;
  core::DType dtype = core::DType::f32;
};

/// What is wanted, findable by name. Keeps a pointer to the list.
class KeyTable {
 public:
  explicit KeyTable(const KeyList& list);
  const KeyList& list() const { return *list_; }
  const WantedKey& operator[](std::size_t i) const { return list_->keys[i]; }
  std::size_t size() const { return list_->keys.size(); }
  /// Position, or -1.
  std::ptrdiff_t find(std::string_view key) const;
  /// Every shape is known.
  bool shapes_known() const { return shapes_known_; }

 private:
  const KeyList* list_;
  std::unordered_map<std::string_view, std::size_t> index_;
  bool shapes_known_ = true;
};

/// Who goes with whom; -1 for nobody.
struct KeyPairing {
  std::vector<std::ptrdiff_t> file_of_wanted;
  std::vector<std::ptrdiff_t> wanted_of_file;
};

bool shape_fits(const WantedKey& wanted, const core::Shape& shape);
bool is_counter(std::string_view key);
/// "layer1.0.bn1" of "layer1.0.bn1.weight", "" when there is no dot; and what stands behind it.
std::string_view parent_of(std::string_view key);
std::string_view leaf_of(std::string_view key);
bool is_number(std::string_view component);

class Attempt {
 public:
  Attempt(std::vector<FileKey> file, const KeyTable& wanted);

  const std::vector<FileKey>& file() const { return file_; }
  const KeyTable& wanted() const { return *wanted_; }
  const KeyPairing& pairing() const { return pairing_; }
  const Match& match() const { return match_; }
  bool complete() const;  ///< all wanted keys there, nothing left over
  std::vector<std::size_t> unmatched_file() const;
  std::vector<std::size_t> unmatched_wanted() const;
  /// Wanted keys that are there with another shape.
  std::vector<std::size_t> mismatched() const;

  /// Adds a cause; `file` is what the keys become when its steps are taken. Fills before, after and cured.
  void add(Cause cause, std::vector<FixStep> steps, std::vector<FileKey> file);
  /// A cause that no step cures.
  void add(Cause cause) { add(std::move(cause), {}, file_); }

  /// The pairing that other keys would give, and 2 for each match by name and shape, 1 for one by name alone.
  KeyPairing pair_up(const std::vector<FileKey>& file) const;
  std::uint64_t score(const std::vector<FileKey>& file, const KeyPairing& pairing) const;
  std::uint64_t score() const { return score(file_, pairing_); }

  std::vector<Cause> causes;
  FixPlan plan;

 private:
  Match count(const std::vector<FileKey>& file, const KeyPairing& pairing) const;

  std::vector<FileKey> file_;
  const KeyTable* wanted_;
  KeyPairing pairing_;
  Match match_;
};

}  // namespace ckpt::detail
