#include "tests/bench/bench_delta.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "libckpt/ckpt.h"
#include "libckpt/io/parallel_io.h"

namespace bench {
namespace {

constexpr std::uint64_t kPiece = 4ULL << 20;  // as a save reads tensors

struct Piece {
  const ckpt::ByteSource* source;
  std::uint64_t at;
  core::MutableBytes to;
};

}  // namespace

DeltaChain::DeltaChain(std::vector<std::filesystem::path> files, unsigned threads)
    : files_(std::move(files)),
      threads_(threads),
      folder_(std::filesystem::temp_directory_path() / ("ckpt-bench-" + std::to_string(::getpid()))) {
  std::filesystem::create_directories(folder_);
}

DeltaChain::~DeltaChain() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::filesystem::path DeltaChain::delta_path(std::size_t i) const {
  return folder_ / (std::to_string(i) + ".delta.ckpt");
}

void DeltaChain::make() const {
  for (std::size_t i = 1; i < files_.size(); ++i) {
    const ckpt::Checkpoint delta = ckpt::make_delta(ckpt::open(files_[i - 1]), ckpt::open(files_[i]),
                                                    {.threads = threads_, .digests_when_saved = true});
    ckpt::save(delta, delta_path(i), {.durable = false, .codec = ckpt::Codec::zstd, .threads = threads_});
  }
}

void DeltaChain::restore() {
  std::vector<ckpt::Checkpoint> deltas;
  for (std::size_t i = 1; i < files_.size(); ++i) deltas.push_back(ckpt::open_delta(delta_path(i)));
  const ckpt::Checkpoint last =
      ckpt::apply_deltas(ckpt::open(files_[0]), deltas, {.threads = threads_, .check_target = true});
  const std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(last.root);
  restored_.resize(entries.size());
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ckpt::ByteSource& source = *entries[i].entry->bytes;
    restored_[i].resize(source.size());
    for (std::uint64_t at = 0; at < source.size(); at += kPiece) {
      const std::uint64_t size = std::min(kPiece, source.size() - at);
      pieces.push_back({&source, at, core::MutableBytes(restored_[i]).subspan(at, size)});
    }
  }
  ckpt::parallel_for(pieces.size(), threads_,
                     [&](std::size_t i) { pieces[i].source->read(pieces[i].at, pieces[i].to); });
  for (const ckpt::NamedEntry& named : entries) named.entry->bytes->require_unchanged();
}

std::uint64_t DeltaChain::bytes() const {
  std::uint64_t total = 0;
  for (const core::ByteVector& tensor : restored_) total += tensor.size();
  return total;
}

std::uint64_t DeltaChain::stored_bytes() const {
  std::uint64_t total = 0;
  for (std::size_t i = 1; i < files_.size(); ++i) total += std::filesystem::file_size(delta_path(i));
  return total / (files_.size() - 1);
}

std::uint64_t DeltaChain::sum64() const {
  std::uint64_t sum = 0;
  for (const core::ByteVector& tensor : restored_) {
    for (std::size_t at = 0; at < tensor.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, tensor.data() + at, std::min<std::size_t>(8, tensor.size() - at));
      sum += word;
    }
  }
  return sum;
}

}  // namespace bench
