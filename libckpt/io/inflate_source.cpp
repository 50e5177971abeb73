#include "libckpt/io/inflate_source.h"

#include <zlib.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <new>

#include "libckpt/io/checksum.h"
#include "libckpt/io/kept_memory.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kInput = 64 << 10;
constexpr std::uint64_t kStep = 256 << 10;
constexpr std::uint64_t kHistory = 32 << 20;
constexpr std::uint64_t kReaders = 4;  ///< members that are read at once share what may be kept

/// zlib's decoder in front of a source.
class Decoder {
 public:
  Decoder(const ByteSource& packed, const InflateOptions& options) : packed_(packed), options_(options) {
    int code = inflateInit2(&stream_, -MAX_WBITS);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code != Z_OK) throw Error(ErrorCode::internal, "zlib cannot be started");
  }
  ~Decoder() { inflateEnd(&stream_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Fills `out` with the next bytes. REQUIRES: no more than are left of options.size.
  void next(MutableBytes out) {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    while (stream_.avail_out > 0) step();
    crc_ = crc32(out, crc_);
    done_ += out.size();
    if (done_ == options_.size) finish();
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw Error(ErrorCode::corrupt, options_.what + " " + why); }

  void step() {
    if (ended_) fail("inflates to fewer bytes than the " + std::to_string(options_.size) + " that were promised");
    if (stream_.avail_in == 0) refill();
    int code = ::inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code == Z_STREAM_END) {
      ended_ = true;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      fail("is damaged: it does not inflate");
    }
  }

  void refill() {
    std::uint64_t count = std::min(kInput, packed_.size() - taken_);
    if (count == 0) fail("is damaged: its deflated data end early");
    input_.resize(count);
    packed_.read(taken_, input_);
    taken_ += count;
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(count);
  }

  /// The end of the stream must follow, and nothing else.
  void finish() {
    std::byte more{};
    while (!ended_) {
      stream_.next_out = reinterpret_cast<Bytef*>(&more);
      stream_.avail_out = 1;
      step();
      if (stream_.avail_out == 0) {
        fail("inflates to more bytes than the " + std::to_string(options_.size) + " that were promised");
      }
    }
    if (stream_.avail_in > 0 || taken_ < packed_.size()) fail("is followed by bytes that belong to nothing");
    if (options_.crc32 && *options_.crc32 != crc_) fail("is damaged: its CRC-32 is not the recorded one");
  }

  const ByteSource& packed_;
  const InflateOptions& options_;
  z_stream stream_ = {};
  core::ByteVector input_;
  std::uint64_t taken_ = 0;
  std::uint64_t done_ = 0;
  std::uint32_t crc_ = 0;
  bool ended_ = false;
};

class InflateSource final : public ByteSource, private detail::Keeper {
 public:
  InflateSource(SourcePtr packed, InflateOptions options) : packed_(std::move(packed)), options_(std::move(options)) {}
  ~InflateSource() override { forget(); }

  std::uint64_t size() const override { return options_.size; }
  void require_unchanged() const override { packed_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { packed_->visit_checked(see); }

  void read(std::uint64_t offset, MutableBytes out) const override {
    if (offset > options_.size || out.size() > options_.size - offset) {
      throw Error(ErrorCode::corrupt, "a read past the end of " + options_.what);
    }
    std::lock_guard lock(mutex_);
    forget();  // what it is decoded from may keep something, too, and would come back to this lock
    try {
      while (!out.empty()) {
        std::uint64_t count = read_some(offset, out);
        offset += count;
        out = out.subspan(count);
      }
    } catch (...) {
      clear();
      throw;
    }
    // Thousands of members must not each hold a decoder.
    if (served_ < options_.size - std::min(first_, options_.size)) return used(end_ - begin_);
    clear();
  }

 private:
  std::uint64_t read_some(std::uint64_t offset, MutableBytes out) const {
    if (decoder_ == nullptr || offset < begin_) restart();
    first_ = std::min(first_, offset);
    while (offset >= end_) decode();
    const std::uint64_t at = offset - begin_;
    const Bytes block = Bytes(history_[at / kStep]).subspan(at % kStep);
    const std::size_t count = std::min(out.size(), block.size());
    std::copy_n(block.begin(), count, out.begin());
    served_ += count;
    return count;
  }

  void restart() const {
    clear();
    decoder_ = std::make_unique<Decoder>(*packed_, options_);
  }

  void decode() const {
    core::ByteVector block;
    while ((history_.size() + 1) * kStep > std::clamp(detail::most_kept() / kReaders, kStep, kHistory)) {
      block = std::move(history_.front());
      history_.pop_front();
      begin_ += block.size();
    }
    block.resize(std::min(kStep, options_.size - end_));
    decoder_->next(block);
    end_ += block.size();
    history_.push_back(std::move(block));
  }

  void clear() const {
    decoder_.reset();
    history_ = {};
    begin_ = end_ = served_ = 0;
    first_ = UINT64_MAX;
  }

  bool let_go() const override {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    clear();
    return true;
  }

  SourcePtr packed_;
  InflateOptions options_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Decoder> decoder_;
  mutable std::deque<core::ByteVector> history_;  ///< blocks of kStep, the last one shorter: from begin_ to end_
  mutable std::uint64_t begin_ = 0;
  mutable std::uint64_t end_ = 0;
  mutable std::uint64_t first_ = UINT64_MAX;  ///< offset, the lowest that was asked for since the start
  mutable std::uint64_t served_ = 0;  ///< bytes handed out since: all behind first_ means that the reader is done
};

}  // namespace

SourcePtr inflated(SourcePtr packed, InflateOptions options) {
  return std::make_shared<InflateSource>(std::move(packed), std::move(options));
}

}  // namespace ckpt
