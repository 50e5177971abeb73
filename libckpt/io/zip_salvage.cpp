#include "libckpt/io/zip_salvage.h"

#include <algorithm>
#include <map>

#include "libckpt/io/checked_source.h"
#include "libckpt/io/inflate_source.h"
#include "libckpt/io/zip_directory.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using namespace detail;

/// Looks for 4-byte signatures in a file, through a buffer.
class SignatureSearch {
 public:
  explicit SignatureSearch(const ByteSource& file) : file_(file) {}

  /// The first place at or behind `from` where `signature` stands; nullopt for none.
  std::optional<std::uint64_t> next(std::uint32_t signature, std::uint64_t from) {
    core::ByteVector wanted;
    core::append_le(wanted, signature);
    while (from + wanted.size() <= file_.size()) {
      Bytes part = window(from);
      auto at = std::search(part.begin(), part.end(), wanted.begin(), wanted.end());
      if (at != part.end()) return from + static_cast<std::uint64_t>(at - part.begin());
      from += part.size() - (wanted.size() - 1);
    }
    return std::nullopt;
  }

  /// What of `length` bytes at `offset` lies in the file.
  Bytes at(std::uint64_t offset, std::uint64_t length) {
    Bytes part = window(offset);
    return part.first(std::min<std::uint64_t>(part.size(), length));
  }

 private:
  static constexpr std::uint64_t kWindow = 1ULL << 20;
  static constexpr std::uint64_t kLeast = 70'000;  ///< a local header with its name

  Bytes window(std::uint64_t from) {
    if (from >= file_.size()) return {};
    bool held = from >= begin_ && from < begin_ + buffer_.size() &&
                (begin_ + buffer_.size() - from >= kLeast || begin_ + buffer_.size() == file_.size());
    if (!held) {
      begin_ = from;
      buffer_.resize(std::min(kWindow, file_.size() - from));
      file_.read(from, buffer_);
    }
    return Bytes(buffer_).subspan(from - begin_);
  }

  const ByteSource& file_;
  std::uint64_t begin_ = 0;
  core::ByteVector buffer_;
};

class RecordFinder {
 public:
  RecordFinder(const ByteSource& file, const ZipReadOptions& options, const SizeGuess& guess)
      : file_(file), options_(options), guess_(guess), search_(file) {}

  std::vector<FoundRecord> run() {
    std::uint64_t at = 0;
    while (std::optional<std::uint64_t> header = search_.next(kLocalSignature, at)) {
      std::uint64_t end = take(*header);
      at = end > *header ? end : *header + 4;
    }
    std::vector<FoundRecord> out;
    for (FoundRecord& record : found_) {
      if (last_.at(record.name) == record.payload_offset) out.push_back(std::move(record));
    }
    return out;
  }

 private:
  /// The end of the record that begins at `at`; `at` itself when none does.
  std::uint64_t take(std::uint64_t at) {
    Bytes head = search_.at(at, kLocalSize);
    if (head.size() < kLocalSize) return at;
    auto flags = core::load_le<std::uint16_t>(head.data() + 6);
    FoundRecord record;
    record.method = core::load_le<std::uint16_t>(head.data() + 8);
    auto crc = core::load_le<std::uint32_t>(head.data() + 14);
    record.stored_size = core::load_le<std::uint32_t>(head.data() + 18);
    record.size = core::load_le<std::uint32_t>(head.data() + 22);
    auto name_size = core::load_le<std::uint16_t>(head.data() + 26);
    auto extra_size = core::load_le<std::uint16_t>(head.data() + 28);
    bool known = record.method == kZipStored || record.method == kZipDeflated;
    Bytes rest = search_.at(at + kLocalSize, std::uint64_t{name_size} + extra_size);
    if (!known || name_size == 0 || name_size > options_.max_name ||
        rest.size() < std::size_t{name_size} + extra_size) {
      return at;
    }
    record.name = core::as_text(rest.first(name_size));
    record.payload_offset = at + kLocalSize + name_size + extra_size;
    bool sized = (flags & kFlagDescriptor) == 0 || crc != 0;
    if (sized) {
      take_long_sizes(rest.subspan(name_size), record);
      if (record.payload_offset + record.stored_size <= file_.size()) record.crc32 = crc;
    } else {
      find_descriptor(record);
    }
    std::uint64_t end = record.payload_offset + (record.complete() ? record.stored_size : 0);
    keep(std::move(record));
    return end;
  }

  void keep(FoundRecord record) {
    if (found_.size() >= options_.max_members) {
      throw core::Error(core::ErrorCode::refused, "the archive has more than " + std::to_string(options_.max_members) +
                                                      " records, which is the limit");
    }
    last_[record.name] = record.payload_offset;
    found_.push_back(std::move(record));
  }

  /// Sizes of 4 GiB and more stand in an extra field.
  static void take_long_sizes(Bytes extra, FoundRecord& record) {
    while (extra.size() >= 4) {
      auto id = core::load_le<std::uint16_t>(extra.data());
      auto size = core::load_le<std::uint16_t>(extra.data() + 2);
      if (extra.size() < std::size_t{4} + size) return;
      if (id == kZip64Id && size >= 16) {
        record.size = core::load_le<std::uint64_t>(extra.data() + 4);
        record.stored_size = core::load_le<std::uint64_t>(extra.data() + 12);
        return;
      }
      extra = extra.subspan(std::size_t{4} + size);
    }
  }

  void find_descriptor(FoundRecord& record) {
    std::optional<std::uint64_t> size = guess_ ? guess_(record.name, found_) : std::nullopt;
    if (size && *size <= file_.size() - record.payload_offset &&
        take_descriptor(record.payload_offset + *size, record)) {
      return;
    }
    // Of a record that PyTorch wrote it stands right behind; only what claims to be many records without an end makes
    // the searches longer together than the file.
    constexpr std::uint64_t kTimes = 8;
    std::uint64_t from = record.payload_offset;
    while (searched_ / kTimes < file_.size()) {
      std::optional<std::uint64_t> at = search_.next(kDescriptorSignature, from);
      searched_ += at.value_or(file_.size()) - from + kDescriptorCost;
      if (!at || take_descriptor(*at, record)) return;
      from = *at + 4;
    }
  }

  /// A descriptor is one when it states how far it stands from the payload's begin. With sizes of 4 bytes it is 16
  /// bytes long, with sizes of 8 bytes 24.
  bool take_descriptor(std::uint64_t at, FoundRecord& record) {
    std::uint64_t stored = at - record.payload_offset;
    Bytes bytes = search_.at(at, 24);
    if (bytes.size() < 16 || core::load_le<std::uint32_t>(bytes.data()) != kDescriptorSignature) return false;
    auto fits = [&](std::uint64_t packed, std::uint64_t size) {
      return packed == stored && (record.method != kZipStored || size == stored);
    };
    auto small_size = core::load_le<std::uint32_t>(bytes.data() + 12);
    bool is_short = fits(core::load_le<std::uint32_t>(bytes.data() + 8), small_size);
    bool is_long = bytes.size() == 24 && fits(core::load_le<std::uint64_t>(bytes.data() + 8),
                                              core::load_le<std::uint64_t>(bytes.data() + 16));
    if (!is_short && !is_long) return false;
    record.crc32 = core::load_le<std::uint32_t>(bytes.data() + 4);
    record.stored_size = stored;
    record.size = is_long ? core::load_le<std::uint64_t>(bytes.data() + 16) : small_size;
    return true;
  }

  const ByteSource& file_;
  const ZipReadOptions& options_;
  static constexpr std::uint64_t kDescriptorCost = 64;  ///< of looking at one, in bytes searched

  const SizeGuess& guess_;
  SignatureSearch search_;
  std::vector<FoundRecord> found_;
  std::uint64_t searched_ = 0;                 ///< bytes, for descriptors
  std::map<std::string, std::uint64_t> last_;  ///< where the payload of the last record of a name begins
};

}  // namespace

std::vector<FoundRecord> find_zip_records(const ByteSource& file, const ZipReadOptions& options,
                                          const SizeGuess& guess) {
  return RecordFinder(file, options, guess).run();
}

SourcePtr record_bytes(const SourcePtr& file, const FoundRecord& record) {
  SourcePtr stored = slice(file, record.payload_offset, record.stored_size);
  if (record.method == kZipStored) {
    return checked(std::move(stored), *record.crc32,
                   {.subject = "the record " + core::quote(record.name) + " is damaged", .before_use = true});
  }
  return inflated(std::move(stored), {record.size, record.crc32, "zip record " + core::quote(record.name)});
}

bool has_zip_end(const ByteSource& file) {
  std::uint64_t size = std::min<std::uint64_t>(file.size(), kEndSize + kMax16);
  core::ByteVector tail(size);
  file.read(file.size() - size, tail);
  for (std::size_t at = 0; at + kEndSize <= tail.size(); ++at) {
    if (core::load_le<std::uint32_t>(&tail[at]) == kEndSignature) return true;
  }
  return false;
}

}  // namespace ckpt
