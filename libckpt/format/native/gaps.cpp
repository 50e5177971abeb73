#include "libckpt/format/native/gaps.h"

#include <algorithm>

#include "libcore/base/checked_math.h"

namespace ckpt::detail {

std::vector<FileGap> find_gaps(const OpenedNative& file) {
  std::vector<FileGap> parts;
  for (const Payload& payload : file.index.payloads) {
    if (payload.stored > 0) parts.push_back({payload.offset, payload.offset + payload.stored});
  }
  for (const StampedRange& range : file.index.ranges) parts.push_back({range.offset, range.offset + range.length});
  std::uint64_t end = file.header.body_size;
  if (file.index.parity) end = file.index.parity->covered - file.header.user_block;
  parts.push_back({end, end});
  std::sort(parts.begin(), parts.end(), [](const FileGap& a, const FileGap& b) { return a.begin < b.begin; });
  std::vector<FileGap> between;
  std::uint64_t seen = 0;
  for (const FileGap& part : parts) {
    if (part.begin > seen) between.push_back({seen, part.begin});
    seen = std::max(seen, part.end);
  }
  return between;
}

std::uint64_t native_unused_bytes(const Input& input) {
  constexpr std::uint64_t kAlignment = 4096;  // of large payloads and of the metadata
  std::uint64_t unused = 0;
  for (const FileGap& gap : find_gaps(*open_native(input, {}))) {
    std::uint64_t padded = core::align_up(gap.begin, kAlignment);
    if (gap.end > padded) unused += gap.end - padded;
  }
  return unused;
}

}  // namespace ckpt::detail
