#pragma once
// The Value tree of a checkpoint as bytes and back. Values that are one object in several places (and tensors that are)
// are written once and referred to, so that sharing survives.
// Thread safety: plain functions on their arguments. Use: core::ByteVector tree = encode_tree(root, lookup);

#include <functional>
#include <optional>
#include <vector>

#include "libckpt/entry.h"
#include "libckpt/format/native/layout.h"
#include "libckpt/io/byte_cursor.h"

namespace ckpt::detail {

/// Where the bytes of a tensor are, apart from what the Entry says itself.
struct EntryRecord {
  std::optional<Window> window;    ///< none for a meta tensor and for a view that repeats a small storage very often
  std::optional<ViewRecord> view;  ///< where the tensor was a view that comes back as one
};

using RecordLookup = std::function<const EntryRecord&(const Entry&)>;

/// Error(unsupported) when the tree is nested deeper than `max_depth`.
core::ByteVector encode_tree(const Value& root, const RecordLookup& lookup, std::uint64_t max_depth);

/// Makes the sources of a tensor: fills in bytes and view from the record. REQUIRES of the callee: checks both.
using EntryCompleter = std::function<void(const EntryRecord& record, Entry& entry)>;

/// Takes an item of the top dict for itself, or leaves `in` where it is.
using ItemTaker = std::function<bool(ByteCursor& in)>;

/// `take_item`, where it is given, is asked for every item of the top dict. Errors: Error(corrupt) for bytes that are
/// no tree; Error(refused) past a limit; Error(unsupported) for an unknown kind of value.
Value decode_tree(core::Bytes bytes, const EntryCompleter& complete, const Limits& limits,
                  const ItemTaker& take_item = {});

}  // namespace ckpt::detail
