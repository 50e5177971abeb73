#include "libckpt/io/checked_source.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "libcore/base/error.h"

namespace ckpt {
namespace {

constexpr std::uint64_t kCheckedPart = 1 << 20;
constexpr std::size_t kMaxEarly = 1024;  ///< several threads are a few pieces apart; whoever jumps about is read again
constexpr std::uint64_t kGap = 4096;     ///< a header in front of values, which nobody else asks for
constexpr std::uint64_t kMostCopied = 64ULL << 20;  ///< bytes of early parts, of all sources together

std::atomic<std::uint64_t> copied = 0;

}  // namespace

CheckedSource::Early::Early(std::uint64_t end, Bytes bytes) : end_(end) {
  if (copied.fetch_add(bytes.size()) + bytes.size() <= kMostCopied) {
    copy_.reset(new (std::nothrow) std::byte[bytes.size()]);
  }
  if (copy_ == nullptr) {
    copied -= bytes.size();
    return;
  }
  std::memcpy(copy_.get(), bytes.data(), bytes.size());
  size_ = bytes.size();
}

CheckedSource::Early::~Early() {
  copied -= size_;
}

CheckedSource::CheckedSource(SourcePtr raw, Checksum expected, CheckOptions options)
    : raw_(std::move(raw)), expected_(std::move(expected)), options_(std::move(options)) {
  if (std::holds_alternative<SeenDamage>(expected_)) state_ = State::good;
}

bool CheckedSource::is_damaged() const {
  const auto* seen = std::get_if<SeenDamage>(&expected_);
  return state_ == State::damaged || (seen != nullptr && **seen);
}

void CheckedSource::read(std::uint64_t offset, MutableBytes out) const {
  if (options_.before_use && is_open()) {
    std::lock_guard lock(mutex_);
    finish();
  }
  if (is_damaged()) throw_damage();
  const std::uint64_t step = is_open() && options_.step != 0 ? options_.step : out.size();
  while (!out.empty()) {
    const MutableBytes part = out.first(std::min<std::uint64_t>(step, out.size()));
    read_part(offset, part);
    offset += part.size();
    out = out.subspan(part.size());
  }
}

void CheckedSource::read_part(std::uint64_t offset, MutableBytes out) const {
  try {
    raw_->read(offset, out);
  } catch (const core::Error& error) {
    if (error.code() == core::ErrorCode::corrupt) note_failure(error.message());
    throw;
  }
  if (!is_open()) return;
  std::lock_guard lock(mutex_);
  note(offset, out);
}

Bytes CheckedSource::memory() const {
  Bytes bytes = raw_->memory();
  if (bytes.empty()) return bytes;
  std::lock_guard lock(mutex_);
  finish();
  return bytes;
}

void CheckedSource::require_unchanged() const {
  raw_->require_unchanged();
  std::lock_guard lock(mutex_);
  if (touched_) finish();
}

void CheckedSource::visit_checked(const CheckedVisitor& see) const {
  see(*this);
  raw_->visit_checked(see);
}

void CheckedSource::note(std::uint64_t offset, Bytes bytes) const {
  if (!is_open()) return;
  touched_ = true;
  std::uint64_t end = offset + bytes.size();
  if (offset > next_ && offset - next_ <= kGap) read_up_to(offset);
  if (offset > next_) {
    if (early_.size() < kMaxEarly) early_.try_emplace(offset, end, bytes);
    return;
  }
  if (end <= next_) return;
  update(bytes.subspan(next_ - offset));
  catch_up();
  if (next_ == size()) judge();
}

void CheckedSource::update(Bytes bytes) const {
  if (std::holds_alternative<std::uint32_t>(expected_)) {
    crc_ = crc32(bytes, crc_);
  } else {
    if (hasher_ == nullptr) hasher_ = std::make_unique<Hasher128>();
    hasher_->update(bytes);
  }
  next_ += bytes.size();
}

void CheckedSource::read_up_to(std::uint64_t end) const {
  core::ByteVector buffer(next_ < end ? std::min(kCheckedPart, end - next_) : 0);
  while (next_ < end) {
    MutableBytes part = MutableBytes(buffer).first(std::min<std::uint64_t>(buffer.size(), end - next_));
    raw_->read(next_, part);
    update(part);
  }
}

/// What came before its turn is taken from its copy, or read again.
void CheckedSource::catch_up() const {
  while (!early_.empty() && early_.begin()->first <= next_) {
    auto part = early_.extract(early_.begin());
    const Early& early = part.mapped();
    if (early.end() <= next_) continue;
    early.bytes().empty() ? read_up_to(early.end()) : update(early.bytes().subspan(next_ - part.key()));
  }
}

void CheckedSource::judge() const {
  bool same = false;
  if (const auto* crc = std::get_if<std::uint32_t>(&expected_)) {
    same = crc_ == *crc;
  } else {
    if (hasher_ == nullptr) hasher_ = std::make_unique<Hasher128>();
    same = hasher_->finish() == std::get<Hash128>(expected_);
  }
  state_ = same ? State::good : State::damaged;
  early_.clear();
  throw_damage();
}

void CheckedSource::finish() const {
  if (is_open()) {
    touched_ = true;
    read_up_to(size());
    judge();
  }
  throw_damage();
}

/// Bytes that cannot be decoded are damaged, too.
void CheckedSource::note_failure(const std::string& message) const {
  std::lock_guard lock(mutex_);
  if (state_ == State::damaged) return;
  failure_ = message;
  state_ = State::damaged;
}

void CheckedSource::throw_damage() const {
  if (!is_damaged() || options_.lenient) return;
  if (!failure_.empty()) throw core::Error(core::ErrorCode::corrupt, failure_);
  std::string text = options_.subject + ": ";
  if (const auto* hash = std::get_if<Hash128>(&expected_)) {
    text += "their hash is " + to_hex(hasher_->finish()) + " where " + to_hex(*hash) + " was written";
  } else {
    text += "its CRC-32 is not the recorded one";
  }
  throw core::Error(core::ErrorCode::corrupt, std::move(text));
}

SourcePtr checked(SourcePtr raw, Checksum expected, CheckOptions options) {
  return std::make_shared<CheckedSource>(std::move(raw), std::move(expected), std::move(options));
}

bool is_damaged(const ByteSource& source) {
  bool found = false;
  source.visit_checked([&](const CheckedSource& part) { found = found || part.is_damaged(); });
  return found;
}

bool awaits_check(const ByteSource& source) {
  bool found = false;
  source.visit_checked([&](const CheckedSource& part) { found = found || part.is_open(); });
  return found;
}

const ByteSource& unchecked(const ByteSource& source) {
  const auto* part = dynamic_cast<const CheckedSource*>(&source);
  return part == nullptr ? source : *part->raw();
}

}  // namespace ckpt
