#pragma once
// CUDA_VISIBLE_DEVICES: which of the machine's devices a process sees, and in which order.
// Thread safety: pure functions. Use: core::detail::visible_ordinals("2,0", uuids) gives {2, 0}.

#include <string>
#include <string_view>
#include <vector>

namespace core::detail {

/// Indices into `uuids` (one per device) in the order of the list `text`: numbers, of which leading digits count
/// ("1gpu2,2ampere" is 1, 2), or the beginning of exactly one uuid ("GPU-5a"). The list ends at the first entry that
/// names no device; a device named twice hides all, as the driver has it.
std::vector<int> visible_ordinals(std::string_view text, const std::vector<std::string>& uuids);

/// "GPU-00000000-0000-0000-0000-000000000003" for logical device 3.
std::string logical_uuid(int ordinal);

}  // namespace core::detail
