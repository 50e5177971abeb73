#pragma once
// The plan of a save by many ranks: what each of them has, and who writes what. Every rank makes the same plan from the
// same texts, so that what does not fit is the same error on all of them. Thread safety: plain values. Use:
// LocalPlan mine = local_plan(state, pieces); Plan plan = merge_plans({decode_plan(text), ...});

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/dist/pieces.h"
#include "libckpt/format/dcp/metadata.h"
#include "libckpt/format/dcp/tiling.h"
#include "libckpt/value.h"

namespace ckpt::dist {

/// One item as a rank has it.
struct LocalItem {
  detail::DcpItem item;  ///< without chunks
  detail::Box box;       ///< of a tensor
};

struct LocalPlan {
  std::vector<LocalItem> items;
  std::vector<Value> values;  ///< of this rank; none in a plan that came from another
};

/// Errors: Error(unsupported) for what a distributed checkpoint cannot hold; Error(value) for a piece that reaches out
/// of its tensor or names none.
LocalPlan local_plan(const Value& state, const Pieces& pieces);

/// Without the values, as a text for the others: about 20 bytes a box beside the names.
std::string encode_plan(const LocalPlan& plan);
/// Errors: Error(corrupt) for a text that no rank writes.
LocalPlan decode_plan(std::string_view text);

struct PlannedItem {
  detail::DcpItem item;                 ///< chunks without places
  std::vector<std::uint32_t> owners;    ///< the rank that writes each chunk, or the object
  std::vector<std::uint32_t> replicas;  ///< how many ranks have each chunk, or the object
};

struct Plan {
  std::vector<PlannedItem> items;   ///< in the order of rank 0, then of the ranks that have more
  std::vector<std::uint64_t> load;  ///< bytes of tensors that each rank writes
};

/// A box that several ranks have is written by the one of them with the least to write; an object by the first that has
/// it. Errors, the same on every rank: Error(value) for a tensor of another type or shape on two ranks, boxes that
/// overlap, or leave elements out, with its name and the ranks.
Plan merge_plans(const std::vector<LocalPlan>& ranks);

}  // namespace ckpt::dist
