#include "libckpt/io/checked_source.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "libckpt/io/kept_memory.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

constexpr std::uint64_t kCheckedPart = 1 << 20;
constexpr std::size_t kMaxEarly = 1024;  ///< several threads are a few pieces apart; whoever jumps about is read again
constexpr std::uint64_t kGap = 4096;     ///< a header in front of values, which nobody else asks for

/// At most `step`, so that `size` bytes make parts of about one size. A small rest would be read through the page cache
/// where the rest of the file is read past it, and there the system brings megabytes in advance.
std::uint64_t even_step(std::uint64_t size, std::uint64_t step) {
  const std::uint64_t parts = (size + step - 1) / step;
  return parts == 0 ? step : (size + parts - 1) / parts;
}

std::atomic<std::uint64_t> copied = 0;  ///< bytes of early parts, of all sources together

}  // namespace

struct CheckedSource::Reading {
  /// A part that was read before its turn, with a copy of its bytes while there is room for copies.
  class Early {
   public:
    Early(std::uint64_t end, Bytes bytes) : end_(end) {
      if (copied.fetch_add(bytes.size()) + bytes.size() <= detail::most_copied()) {
        copy_.reset(new (std::nothrow) std::byte[bytes.size()]);
      }
      if (copy_ == nullptr) {
        copied -= bytes.size();
        return;
      }
      std::memcpy(copy_.get(), bytes.data(), bytes.size());
      size_ = bytes.size();
    }
    ~Early() { copied -= size_; }
    Early(const Early&) = delete;
    Early& operator=(const Early&) = delete;
    std::uint64_t end() const { return end_; }
    Bytes bytes() const { return {copy_.get(), size_}; }  ///< empty: they are to be read again

   private:
    std::uint64_t end_;
    std::size_t size_ = 0;
    std::unique_ptr<std::byte[]> copy_;
  };

  std::mutex mutex;        ///< of all that follows
  std::uint64_t next = 0;  ///< all before it is in the checksum
  bool touched = false;
  std::map<std::uint64_t, Early> early;  ///< by where they begin
  std::uint32_t crc = 0;
  std::unique_ptr<Hasher128> hasher;
  std::string failure;  ///< why the bytes cannot even be handed out; set once, before the state
};

CheckedSource::~CheckedSource() {
  delete reading_.load();
}

CheckedSource::Reading& CheckedSource::reading() const {
  if (Reading* known = reading_) return *known;
  auto made = std::make_unique<Reading>();
  Reading* first = nullptr;
  return reading_.compare_exchange_strong(first, made.get()) ? *made.release() : *first;
}

bool CheckedSource::is_damaged() const {
  if (state_ != State::good) return state_ == State::damaged;
  const Checksum expected = this->expected();
  const auto* seen = std::get_if<SeenDamage>(&expected);
  return seen != nullptr && **seen;
}

void CheckedSource::read(std::uint64_t offset, MutableBytes out) const {
  if (options().before_use && is_open()) {
    Reading& now = reading();
    std::lock_guard lock(now.mutex);
    finish(now);
  }
  if (is_damaged()) throw_damage();
  const std::uint64_t step = is_open() && options().step != 0 ? even_step(out.size(), options().step) : out.size();
  while (!out.empty()) {
    const MutableBytes part = out.first(std::min<std::uint64_t>(step, out.size()));
    read_part(offset, part);
    offset += part.size();
    out = out.subspan(part.size());
  }
}

void CheckedSource::read_part(std::uint64_t offset, MutableBytes out) const {
  try {
    bare().read(offset, out);
  } catch (const core::Error& error) {
    if (error.code() == core::ErrorCode::corrupt) note_failure(error.message());
    throw;
  }
  if (!is_open()) return;
  Reading& now = reading();
  std::lock_guard lock(now.mutex);
  note(now, offset, out);
}

Bytes CheckedSource::memory() const {
  Bytes bytes = bare().memory();
  if (bytes.empty()) return bytes;
  Reading& now = reading();
  std::lock_guard lock(now.mutex);
  finish(now);
  return bytes;
}

void CheckedSource::require_unchanged() const {
  bare().require_unchanged();
  Reading* now = reading_;
  if (now == nullptr) return;
  std::lock_guard lock(now->mutex);
  if (now->touched) finish(*now);
}

void CheckedSource::visit_checked(const CheckedVisitor& see) const {
  see(*this);
  bare().visit_checked(see);
}

void CheckedSource::note(Reading& now, std::uint64_t offset, Bytes bytes) const {
  if (!is_open()) return;
  now.touched = true;
  std::uint64_t end = offset + bytes.size();
  if (offset > now.next && offset - now.next <= kGap) read_up_to(now, offset);
  if (offset > now.next) {
    if (now.early.size() < kMaxEarly) now.early.try_emplace(offset, end, bytes);
    return;
  }
  if (end <= now.next) return;
  update(now, bytes.subspan(now.next - offset));
  catch_up(now);
  if (now.next == size()) judge(now);
}

void CheckedSource::update(Reading& now, Bytes bytes) const {
  if (std::holds_alternative<std::uint32_t>(expected())) {
    now.crc = crc32(bytes, now.crc);
  } else {
    if (now.hasher == nullptr) now.hasher = std::make_unique<Hasher128>();
    now.hasher->update(bytes);
  }
  now.next += bytes.size();
}

void CheckedSource::read_up_to(Reading& now, std::uint64_t end) const {
  core::ByteVector buffer(now.next < end ? std::min(kCheckedPart, end - now.next) : 0);
  while (now.next < end) {
    MutableBytes part = MutableBytes(buffer).first(std::min<std::uint64_t>(buffer.size(), end - now.next));
    bare().read(now.next, part);
    update(now, part);
  }
}

/// What came before its turn is taken from its copy, or read again.
void CheckedSource::catch_up(Reading& now) const {
  while (!now.early.empty() && now.early.begin()->first <= now.next) {
    auto part = now.early.extract(now.early.begin());
    const Reading::Early& early = part.mapped();
    if (early.end() <= now.next) continue;
    early.bytes().empty() ? read_up_to(now, early.end()) : update(now, early.bytes().subspan(now.next - part.key()));
  }
}

void CheckedSource::judge(Reading& now) const {
  bool same = false;
  const Checksum expected = this->expected();
  if (const auto* crc = std::get_if<std::uint32_t>(&expected)) {
    same = now.crc == *crc;
  } else {
    if (now.hasher == nullptr) now.hasher = std::make_unique<Hasher128>();
    same = now.hasher->finish() == std::get<Hash128>(expected);
  }
  state_ = same ? State::good : State::damaged;
  now.early.clear();
  throw_damage();
}

void CheckedSource::finish(Reading& now) const {
  if (is_open()) {
    now.touched = true;
    read_up_to(now, size());
    judge(now);
  }
  throw_damage();
}

/// Bytes that cannot be decoded are damaged, too.
void CheckedSource::note_failure(const std::string& message) const {
  Reading& now = reading();
  std::lock_guard lock(now.mutex);
  if (state_ == State::damaged) return;
  now.failure = message;
  state_ = State::damaged;
}

void CheckedSource::throw_damage() const {
  if (!is_damaged() || options().lenient) return;
  const Reading& now = reading();
  if (!now.failure.empty()) throw core::Error(core::ErrorCode::corrupt, now.failure);
  std::string text = options().subject + ": ";
  const Checksum expected = this->expected();
  if (const auto* hash = std::get_if<Hash128>(&expected)) {
    text += "their hash is " + to_hex(now.hasher->finish()) + " where " + to_hex(*hash) + " was written";
  } else {
    text += "its CRC-32 is not the recorded one";
  }
  throw core::Error(core::ErrorCode::corrupt, std::move(text));
}

namespace {

class CheckedBytes final : public CheckedSource {
 public:
  CheckedBytes(SourcePtr raw, Checksum expected, std::shared_ptr<const CheckOptions> options)
      : raw_(std::move(raw)), expected_(std::move(expected)), options_(std::move(options)) {
    if (std::holds_alternative<SeenDamage>(expected_)) leave_to_source();
  }
  SourcePtr raw() const override { return raw_; }
  const ByteSource& bare() const override { return *raw_; }

 private:
  Checksum expected() const override { return expected_; }
  const CheckOptions& options() const override { return *options_; }

  SourcePtr raw_;
  Checksum expected_;
  std::shared_ptr<const CheckOptions> options_;
};

}  // namespace

SourcePtr checked(SourcePtr raw, Checksum expected, CheckOptions options) {
  return checked(std::move(raw), std::move(expected), std::make_shared<const CheckOptions>(std::move(options)));
}

SourcePtr checked(SourcePtr raw, Checksum expected, std::shared_ptr<const CheckOptions> options) {
  return std::make_shared<CheckedBytes>(std::move(raw), std::move(expected), std::move(options));
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
  return part == nullptr ? source : part->bare();
}

}  // namespace ckpt
