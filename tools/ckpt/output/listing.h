#pragma once
// What ls and info know about a file: its tensors with their ties, as rows of a table and as JSON.
// Thread safety: immutable once built. Use: Listing listing = make_listing(checkpoint, "model");

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/analyze/plain_values.h"
#include "libckpt/checkpoint.h"
#include "libckpt/format/spread.h"
#include "libckpt/io/json.h"
#include "libckpt/report.h"

namespace cli {

struct Listing {
  std::vector<ckpt::NamedEntry> tensors;
  /// For each tensor the first one that shares its storage with another (itself included), -1 when it shares nothing.
  std::vector<std::ptrdiff_t> tied_to;
  std::vector<ckpt::NamedValue> values;
  std::uint64_t elements = 0;
  std::uint64_t parameters = 0;  ///< elements of what tensor_kind() calls parameters, aliases of a tensor counted once
  std::uint64_t bytes = 0;       ///< of the logical values, aliases of a tensor counted once
};

Listing make_listing(const ckpt::Value& root);

/// {"name": ..., "dtype": "float32", "shape": [...], "location": ..., "bytes": N, ...}; what is usual is left out.
/// With `spread`, its pieces too.
void write_tensor(ckpt::JsonWriter& json, const Listing& listing, std::size_t index, std::string_view file,
                  const ckpt::Spread* spread = nullptr);
void write_metadata(ckpt::JsonWriter& json, const ckpt::Checkpoint& checkpoint);
/// "dropped", "warnings" and "relaxations", each a list of sentences; of the last two at most five of a kind, and
/// "more_warnings", "more_relaxations" where others are only counted.
void write_report(ckpt::JsonWriter& json, const ckpt::Report& report);

/// "PyTorch zip checkpoint" for "torch-zip".
std::string format_title(const ckpt::Checkpoint& checkpoint);

}  // namespace cli
