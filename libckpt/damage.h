#pragma once
// Tensors whose bytes have turned out not to be those that were written, as far as they were read: what to name in an
// error, and what to say when lenient reading used them all the same.
// Thread safety: pure. Use: std::string text = damage_warning(list_entries(checkpoint.root));

#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libcore/base/error.h"

namespace ckpt {

/// The name of the first damaged tensor, "" for none.
std::string first_damaged(const std::vector<NamedEntry>& entries);
/// One sentence that names the first few and counts the others; "" for none.
std::string damage_warning(const std::vector<NamedEntry>& entries);
/// Of several files that were read: adds the path of this one when the error is damage and its tensors have some.
/// Returns whether it did.
bool add_file_at_fault(core::Error& error, const Checkpoint& checkpoint, const std::vector<NamedEntry>& entries);

}  // namespace ckpt
