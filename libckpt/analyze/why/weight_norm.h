#pragma once
// Weight norm has two namings: torch.nn.utils.weight_norm keeps "weight_g" and "weight_v", parametrizations.weight_norm
// "parametrizations.weight.original0" and "original1". The numbers are the same.
// Thread safety: pure; one owner of the attempt. Use: find_weight_norm(attempt);

#include <optional>
#include <string>
#include <string_view>

#include "libckpt/analyze/why/attempt.h"

namespace ckpt::detail {

/// "conv.weight_g" of "conv.parametrizations.weight.original0", "_v" of "original1"; nothing for any other key. A model
/// of the newer naming takes the older one by itself (the hook that parametrizations.weight_norm registers).
std::optional<std::string> older_weight_norm(std::string_view key);
/// The other way round.
std::optional<std::string> newer_weight_norm(std::string_view key);

/// Where the file has the names of one and the model those of the other: renames them, whatever prefix they have.
void find_weight_norm(Attempt& attempt);

}  // namespace ckpt::detail
