#pragma once
// Info: what `ckpt info` knows about a file, for the terminal, JSON and the HTML page.
// Thread safety: immutable once built. Use: for (const auto& [name, value] : facts_of(info)) ...

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/state_dicts.h"
#include "tools/ckpt/commands/optimizer_facts.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/html.h"
#include "tools/ckpt/output/listing.h"

namespace cli {

/// Tensors by some property, most frequent first.
using Counts = std::vector<std::pair<std::string, std::uint64_t>>;

struct Info {
  Address address;
  ckpt::Checkpoint checkpoint;
  Listing listing;
  Counts dtypes;
  Counts locations;
  Counts codecs;             ///< how the tensors of a native file are packed; empty where none is
  Counts schemes;            ///< layers by how they are quantised: "GPTQ 4-bit, groups of 128"
  bool dequantizes = false;  ///< whether values of such layers can be computed
  std::vector<ckpt::StateDictRef> state_dicts;
  std::uint64_t tied = 0;
  std::vector<OptimizerFact> optimizers;
  std::uint64_t parameters = 0;        ///< elements of what tensor_kind() calls parameters, shared memory counted once
  std::uint64_t model_parameters = 0;  ///< those outside of the optimizers
  std::uint64_t unused_bytes = 0;      ///< that `ckpt compact` leaves behind
  std::string compact_command;         ///< which does so, "" when there are none
  std::uint64_t file_bytes = 0;        ///< of a folder all files in it
};

/// Looks at what lies at the address. Errors: Error(key) when there is nothing.
Info examine(const Address& address, ckpt::Checkpoint checkpoint);

/// Keys of a state dict that begin with a wrapper's component: the prefix and how many.
Counts wrappers_of(const ckpt::Dict& dict);

/// Name and value of each line; printable text.
std::vector<std::pair<std::string, std::string>> facts_of(const Info& info);

enum class PageRows {
  folded,  ///< repeated layers have one row
  all,
};

/// Facts, sizes by module and dtype, a map of the layers, the largest tensors, all tensors.
HtmlPage info_page(const Info& info, PageRows rows = PageRows::folded);

}  // namespace cli
