#include "libckpt/format/spread.h"

#include <algorithm>
#include <map>

#include "libckpt/format/dcp/detail.h"

namespace ckpt {

double Spread::imbalance() const {
  std::uint64_t sum = 0;
  std::uint64_t most = 0;
  for (const SpreadPart& part : parts) {
    sum += part.bytes;
    most = std::max(most, part.bytes);
  }
  return sum == 0 ? 1 : static_cast<double>(most) * static_cast<double>(parts.size()) / static_cast<double>(sum);
}

const std::vector<SpreadPiece>& Spread::of(const Entry& entry) const {
  static const std::vector<SpreadPiece> none;
  auto found = of_tensors.find(entry.bytes.get());
  return found == of_tensors.end() ? none : found->second;
}

std::optional<Spread> spread_of(const Checkpoint& checkpoint) {
  const auto* known = dynamic_cast<const detail::DcpDetail*>(checkpoint.detail.get());
  if (known == nullptr) return std::nullopt;
  Spread spread;
  spread.ranks = known->save.ranks;
  spread.replicated_pieces = known->save.replicated_pieces;
  spread.bytes_saved = known->save.bytes_saved;
  std::map<std::string, std::uint64_t> parts;
  for (const detail::DcpItem& item : known->metadata.items) {
    if (item.place) parts[item.place->file] += item.place->length;
    std::uint64_t written = 0;
    for (const detail::DcpChunk& chunk : item.chunks) {
      if (!chunk.place) continue;
      parts[chunk.place->file] += chunk.place->length;
      ++written;
    }
    if (!item.is_tensor) continue;
    spread.whole += written == 1 ? 1 : 0;
    spread.tensors_in_pieces += written > 1 ? 1 : 0;
    spread.pieces += written > 1 ? written : 0;
  }
  for (const auto& [file, bytes] : parts) spread.parts.push_back({file, bytes});
  for (const auto& [source, item] : known->tensors) {
    std::vector<SpreadPiece>& pieces = spread.of_tensors[source];
    for (const detail::DcpChunk& chunk : known->metadata.items[item].chunks) {
      detail::DcpPlace place = chunk.place.value_or(detail::DcpPlace());
      pieces.push_back({chunk.offsets, chunk.sizes, place.file, place.offset, place.length});
    }
  }
  return spread;
}

}  // namespace ckpt
