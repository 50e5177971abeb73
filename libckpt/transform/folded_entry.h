#pragma once
// Entries whose values are computed from numbers when they are read: one tensor worked into another, a number added,
// constants. Internal to rules. Sums and products are computed in f64 and rounded once to the entry's own type.
// Thread safety: pure; the sources may be read from many threads. Use: EntryPtr more = added(*entry, 1e-8);

#include "libckpt/entry.h"
#include "libckpt/transform/rules.h"

namespace ckpt::detail {

/// `entry` [n, ...] less `part` [n], times it or with it added, along the first dimension. Errors: Error(value) for
/// another shape, or for values that are no floats; Error(unsupported) for quantised blocks.
EntryPtr folded(const Entry& entry, const Entry& part, Rule::By by);

/// What folded() would leave `entry` [n, ...] as it is by: zeros or ones [n] of its type. Errors: those of folded();
/// Error(value) for a tensor without values.
EntryPtr unfolded(const Entry& entry, Rule::By by);

/// `number` added to every value. Errors: Error(value) for values that are no floats; Error(unsupported) for blocks.
EntryPtr added(const Entry& entry, double number);

/// Error(unsupported) for a type that values cannot be cast to; Error(usage) for a value that it does not hold: a
/// fraction or too large a number for an integer, what would be infinite for a float.
EntryPtr constant_entry(const RuleConstant& constant, core::DType dtype);

/// " had [0, 0], and [0.5, 1] is what the way back makes" for values that are not those of `constant` in the entry's
/// type; else, and for a tensor without bytes, "".
std::string other_values(const Entry& entry, const RuleConstant& constant);

}  // namespace ckpt::detail
