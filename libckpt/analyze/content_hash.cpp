#include "libckpt/analyze/content_hash.h"

#include <map>
#include <mutex>
#include <tuple>

#include "libckpt/analyze/numbers.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kContentPiece = 1ULL << 20;  // a multiple of every element size

Hash128 resolved_hash(const Entry& entry) {
  Hasher128 hasher;
  core::ByteVector buffer(std::min(entry.byte_size(), kContentPiece));
  for (std::uint64_t at = 0; at < entry.byte_size(); at += buffer.size()) {
    MutableBytes piece(buffer.data(), std::min<std::uint64_t>(buffer.size(), entry.byte_size() - at));
    entry.bytes->read(at, piece);
    resolve_flags(entry, piece);
    hasher.update(piece);
  }
  entry.bytes->require_unchanged();
  return hasher.finish();
}

}  // namespace

Hash128 content_hash(const Entry& entry) {
  if (entry.bytes == nullptr) return {};
  return entry.conjugate || entry.negative ? resolved_hash(entry) : hash128(*entry.bytes);
}

std::vector<Hash128> content_hashes(const std::vector<NamedEntry>& entries, const ContentHashOptions& options) {
  using Key = std::tuple<const ByteSource*, core::DType, bool, bool>;
  std::map<Key, std::size_t> first;  // of those that share a source
  std::vector<std::size_t> same(entries.size());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& e = *entries[i].entry;
    same[i] = first.try_emplace({e.bytes.get(), e.dtype, e.conjugate, e.negative}, i).first->second;
    if (same[i] == i) total += e.byte_size();
  }
  std::vector<Hash128> out(entries.size());
  std::mutex mutex;
  std::uint64_t done = 0;
  parallel_for(entries.size(), options.threads, [&](std::size_t i) {
    if (same[i] != i) return;
    out[i] = core::with_context(core::quote(entries[i].name), [&] {
      const std::optional<Hash128> known = options.known ? options.known(*entries[i].entry) : std::nullopt;
      return known ? *known : content_hash(*entries[i].entry);
    });
    std::lock_guard lock(mutex);
    done += entries[i].entry->byte_size();
    if (options.progress) options.progress(done, total);
  });
  for (std::size_t i = 0; i < entries.size(); ++i) out[i] = out[same[i]];
  return out;
}

}  // namespace ckpt::detail
