#include "libckpt/delta/target_check.h"

#include <algorithm>

#include "libckpt/analyze/digest.h"
#include "libckpt/delta/delta.h"
#include "libckpt/io/checked_source.h"
#include "libcore/base/error.h"

namespace ckpt::detail {

void TargetCheck::expect(const std::vector<NamedEntry>& entries, unsigned threads) {
  threads_ = threads;
  for (const NamedEntry& named : entries) {
    Entry& entry = tensors_.emplace_back(named.name, *named.entry, named.entry->bytes).entry;
    entry.bytes = nullptr;
    entry.view = {};
  }
}

void TargetCheck::note(const ByteSource& source, std::uint64_t offset, Bytes bytes) const {
  sources_.at(&source)->hash.note(offset, bytes);
}

void TargetCheck::ended(const ByteSource& source) const {
  Source& at = *sources_.at(&source);
  if (!at.hash.found()) return require_base();
  if (at.ended.exchange(true) || --left_ > 0) return;
  const std::vector<NamedEntry> entries = tensors();
  if (entries.empty()) return require_base();
  const auto known = [this](const Entry& entry) -> std::optional<Hash128> {
    const auto found = sources_.find(entry.bytes.get());
    if (found == sources_.end() || entry.conjugate || entry.negative) return std::nullopt;
    return found->second->hash.found();
  };
  const Hash128 found = digest(entries, {.threads = threads_, .known = known}).model;
  const auto is_passed_on = [](const NamedEntry& named) {
    return named.entry->bytes && is_damaged(*named.entry->bytes);
  };
  if (found == wanted_) return;
  require_base();
  if (std::ranges::any_of(entries, is_passed_on)) return;  // damage that is said elsewhere
  throw DigestError("what comes out of " + made_of_ + " has the digest " + to_hex(found) +
                    ", where the difference was made of one with " + to_hex(wanted_));
}

void TargetCheck::require_base() const {
  const std::lock_guard lock(looking_);
  if (!base_is_right_) look_at_base_();
  base_is_right_ = true;
}

std::vector<NamedEntry> TargetCheck::tensors() const {
  std::vector<NamedEntry> out;
  for (const Tensor& tensor : tensors_) {
    Entry entry = tensor.entry;
    entry.bytes = tensor.bytes.lock();
    const bool was_there = tensor.bytes.owner_before(std::weak_ptr<const ByteSource>()) ||
                           std::weak_ptr<const ByteSource>().owner_before(tensor.bytes);
    if (was_there && entry.bytes == nullptr) return {};
    out.push_back({{}, tensor.name, std::make_shared<const Entry>(std::move(entry))});
  }
  return out;
}

}  // namespace ckpt::detail
