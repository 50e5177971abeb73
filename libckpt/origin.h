#pragma once
// What the rules that gave a checkpoint its names say of them beside names (RulePack::note): kept in the file, so that
// whoever loads the weights later still hears of it. In the file-level metadata, and in the _metadata of a state dict,
// which PyTorch's files keep.
// Never throws but for memory. Thread safety: pure. Use: ckpt::Checkpoint kept = ckpt::with_origin(checkpoint, "...");

#include <string>
#include <string_view>

#include "libckpt/checkpoint.h"

namespace ckpt {

/// Of the metadata, and beside "version" in the _metadata of the root module.
inline constexpr std::string_view kOriginKey = "ckpt_origin";

/// With `text` kept in the metadata and, where the root is a state dict, in its _metadata. An empty one is forgotten.
Checkpoint with_origin(const Checkpoint& checkpoint, const std::string& text);

/// What the file keeps, at most 4,000 bytes of it; "" for nothing. Of untrusted text: to be shown as printable().
std::string origin_of(const Checkpoint& checkpoint);

/// The same of one dict's _metadata.
std::string origin_of(const Dict& state_dict);

}  // namespace ckpt
