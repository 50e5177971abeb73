#pragma once
// What ls and info know about a file: its tensors with their ties, as rows of a table and as JSON.
// Thread safety: immutable once built. Use: Listing listing = make_listing(checkpoint, "model");

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/analyze/plain_values.h"
#include "libckpt/checkpoint.h"
#include "libckpt/format/spread.h"
#include "libckpt/io/json.h"
#include "libckpt/io/large_pages.h"
#include "libckpt/report.h"

namespace cli {

/// Names one behind the other, in memory that does not move: of 100,000 it takes a third of as many strings.
class NameBlocks {
 public:
  /// Valid as long as this, wherever it moves.
  std::string_view keep(std::string_view name);

 private:
  std::vector<ckpt::detail::LargeBlock> blocks_;
  std::size_t used_ = 0;  ///< of the last
};

struct ListedTensor {
  std::string_view name;  ///< dotted; valid as long as the listing and the tree
  ckpt::EntryPtr entry;
};

struct Listing {
  Listing() = default;
  Listing(Listing&&) = default;
  Listing& operator=(Listing&&) = default;

  ckpt::detail::LargeVector<ListedTensor> tensors;
  NameBlocks names;
  /// For each tensor the first one that shares its storage with another (itself included), -1 when it shares nothing.
  std::vector<std::ptrdiff_t> tied_to;
  std::vector<ckpt::NamedValue> values;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;  ///< of the logical values, aliases of a tensor counted once
};

/// REQUIRES: the tree outlives the listing.
Listing make_listing(const ckpt::Value& root);

/// {"name": ..., "dtype": "float32", "shape": [...], "location": ..., "bytes": N, ...}; what is usual is left out.
/// With `spread`, its pieces too. REQUIRES: the listing and the spread outlive it.
class TensorLines {
 public:
  TensorLines(const Listing& listing, std::string_view file, const ckpt::Spread* spread = nullptr);
  /// Puts the line of tensor `index` behind `out`.
  void append(std::string& out, std::size_t index) const;

 private:
  const Listing& listing_;
  std::string file_;  ///< as JSON
  const ckpt::Spread* spread_;
};
void write_metadata(ckpt::JsonWriter& json, const ckpt::Checkpoint& checkpoint);
/// "dropped", "warnings" and "relaxations", each a list of sentences; of the last two at most five of a kind, and
/// "more_warnings", "more_relaxations" where others are only counted.
void write_report(ckpt::JsonWriter& json, const ckpt::Report& report);

/// "PyTorch zip checkpoint" for "torch-zip".
std::string format_title(const ckpt::Checkpoint& checkpoint);

}  // namespace cli
