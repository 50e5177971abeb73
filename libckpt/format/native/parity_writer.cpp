#include "libckpt/format/native/parity_writer.h"

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "libckpt/format/native/opened_file.h"
#include "libckpt/io/erasure_code.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g %%", share * 100);
  return text;
}

/// Works on the same groups of all rows at a time: a row is a run of blocks, one of every group.
class ParityWriter {
 public:
  ParityWriter(AtomicFile& file, const ParityHeader& header, const SaveOptions& options)
      : file_(file),
        header_(header),
        layout_(header.layout),
        code_(static_cast<unsigned>(layout_.data_rows()), layout_.parity),
        threads_(thread_count(options.threads)) {
    constexpr std::uint64_t kLargestPart = 64ULL << 10;  // all rows together then stay near the processor
    std::uint64_t rows = layout_.data_rows() + layout_.parity;
    std::uint64_t part = options.max_memory / 2 / threads_ / rows;
    if (part < layout_.block) {
      threads_ = static_cast<unsigned>(std::max<std::uint64_t>(1, options.max_memory / 2 / rows / layout_.block));
      part = layout_.block;
    }
    step_ = std::min(part, kLargestPart) / layout_.block;
    step_ = std::min(std::max<std::uint64_t>(step_, 1), (layout_.groups + threads_ - 1) / threads_);
    hashes_.resize(layout_.table_bytes());
  }

  void run() {
    core::ByteVector head = encode_parity_header(header_);
    file_.write_at(layout_.covered, head);  // first: the padding before it is read below, and has to be there
    std::uint64_t parts = (layout_.groups + step_ - 1) / step_;
    parallel_for(parts, threads_, [&](std::size_t i) {
      std::uint64_t first = i * step_;
      encode(first, std::min(step_, layout_.groups - first));
    });
    file_.write_at(layout_.first_table(), hashes_);
    file_.write_at(layout_.second_table(), hashes_);
    file_.skip_to(layout_.second_header());
    file_.write(head);
  }

 private:
  void note_hash(std::uint64_t number, Bytes block) {
    core::store_le(hashes_.data() + number * kBlockHashBytes, hash128(block).low);
  }

  /// Parity of `count` groups from `first` on.
  void encode(std::uint64_t first, std::uint64_t count) {
    std::uint64_t width = count * layout_.block;
    std::uint64_t data_rows = layout_.data_rows();
    core::ByteVector buffer = take_buffer();
    std::vector<std::byte*> rows;
    for (std::uint64_t r = 0; r < data_rows + layout_.parity; ++r) rows.push_back(buffer.data() + r * width);
    for (std::uint64_t r = 0; r < data_rows; ++r) read_row(r, first, {rows[r], width});
    std::span<std::byte* const> all = rows;
    code_.encode(all.first(data_rows), all.subspan(data_rows), width);
    for (std::uint64_t r = data_rows; r < rows.size(); ++r) {
      for (std::uint64_t g = 0; g < count; ++g) {
        std::uint64_t number = layout_.number_of(r, first + g);
        Bytes block(rows[r] + g * layout_.block, layout_.block);
        file_.write_at(layout_.offset_of(number), block);
        note_hash(number, block);
      }
    }
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(buffer));
  }

  /// Of all rows. Fresh memory costs as much as the arithmetic, so it is used again.
  core::ByteVector take_buffer() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return core::ByteVector((layout_.data_rows() + layout_.parity) * step_ * layout_.block);
    core::ByteVector buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }

  /// The last row may end before its last groups; those blocks count as zeros.
  void read_row(std::uint64_t row, std::uint64_t first, MutableBytes out) {
    std::uint64_t begin = (row * layout_.groups + first) * layout_.block;
    std::uint64_t there = begin < layout_.covered ? std::min<std::uint64_t>(out.size(), layout_.covered - begin) : 0;
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(there), out.end(), std::byte{0});
    out = out.first(there);
    if (!out.empty()) file_.read_at(begin, out);
    for (std::uint64_t at = 0; at < out.size(); at += layout_.block) {
      note_hash(begin / layout_.block + at / layout_.block, out.subspan(at, layout_.block));
    }
  }

  AtomicFile& file_;
  const ParityHeader& header_;
  const ParityLayout& layout_;
  ErasureCode code_;
  unsigned threads_;
  std::uint64_t step_ = 1;  ///< groups that are worked on at a time
  core::ByteVector hashes_;
  std::mutex mutex_;
  std::vector<core::ByteVector> free_;
};

}  // namespace

double parity_share(const Checkpoint& checkpoint, const SaveOptions& options) {
  if (options.parity > 0) return options.parity;
  auto native = std::dynamic_pointer_cast<const NativeDetail>(checkpoint.detail);
  if (options.parity < 0 || !native || native->parity <= 0) return 0;
  if (options.report != nullptr) {
    options.report->warnings.push_back("the parity data of the input, for " + percent(native->parity) +
                                       " of the file, was rebuilt for the output");
  }
  return native->parity;
}

void extend_superblock(core::ByteVector& superblock, std::uint64_t end) {
  constexpr std::size_t kEndOfFile = 40;  // in a superblock of version 0, which has no checksum
  core::store_le(superblock.data() + kEndOfFile, end);
}

void write_parity(AtomicFile& file, const ParityHeader& header, const SaveOptions& options) {
  ParityWriter(file, header, options).run();
}

}  // namespace ckpt::detail
