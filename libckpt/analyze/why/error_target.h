#pragma once
// What an error message says that a model wants, made a key list with the help of the file.
// Thread safety: pure. Use: std::optional<KeyList> wanted = target_of(facts, checkpoint.root);

#include "libckpt/analyze/why.h"

namespace ckpt::detail {

/// The keys of the dict that was loaded, less those the message calls unexpected, and the missing ones behind; shapes
/// where the message or the file has them. Keys of which the message says nothing are the model's too. Nullopt when the
/// message names no key, or none that fits the file.
std::optional<KeyList> target_of(const ErrorFacts& facts, const Value& root);

}  // namespace ckpt::detail
