#include "tests/bench/bench_codec.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "libckpt/ckpt.h"
#include "libckpt/format/hdf5_write/chunk_codec.h"
#include "libckpt/format/hdf5_write/payload_packing.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"

namespace bench {

using ckpt::detail::NativeCodec;

PackedTensors::PackedTensors(const std::filesystem::path& file, ckpt::Codec codec) : codec_(codec) {
  const ckpt::Checkpoint checkpoint = ckpt::open(file);
  std::unordered_set<const void*> seen;  // ties once
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
    if (!named.entry->bytes || !seen.insert(named.entry->bytes.get()).second) continue;
    core::ByteVector bytes = ckpt::read_all(*named.entry->bytes);
    core::ByteVector unpacked(bytes.size(), std::byte{1});
    tensors_.push_back({named.entry, ckpt::memory_source(std::move(bytes)), {}, {}, std::move(unpacked)});
  }
}

std::vector<PackedTensors::Piece> PackedTensors::pieces() {
  std::vector<Piece> pieces;
  for (Tensor& tensor : tensors_) {
    for (std::size_t i = 0; i < tensor.chunks.size(); ++i) pieces.push_back({&tensor, i});
  }
  return pieces;
}

void PackedTensors::pack(Piece piece) {
  const ckpt::detail::Payload& payload = piece.tensor->payload;
  core::ByteVector& packed = piece.tensor->chunks[piece.chunk];
  const core::Bytes all = piece.tensor->memory->memory();
  if (payload.codec == NativeCodec::raw) return packed.assign(all.begin(), all.end());
  const auto [begin, length] = payload.chunks.span_of(piece.chunk);
  if (length == payload.chunks.chunk) {
    packed = ckpt::detail::pack_chunk(payload, all.subspan(begin, length));
    return;
  }
  core::ByteVector padded(payload.chunks.chunk);
  std::memcpy(padded.data(), all.data() + begin, length);
  packed = ckpt::detail::pack_chunk(payload, padded);
}

void PackedTensors::unpack(Piece piece) {
  const ckpt::detail::Payload& payload = piece.tensor->payload;
  const core::ByteVector& packed = piece.tensor->chunks[piece.chunk];
  core::MutableBytes all = piece.tensor->unpacked;
  if (payload.codec == NativeCodec::raw) {
    std::memcpy(all.data(), packed.data(), packed.size());
    return;
  }
  const auto [begin, length] = payload.chunks.span_of(piece.chunk);
  if (length == payload.chunks.chunk) return unpack_chunk(payload, packed, all.subspan(begin, length));
  core::ByteVector padded(payload.chunks.chunk);
  unpack_chunk(payload, packed, padded);
  std::memcpy(all.data() + begin, padded.data(), length);
}

void PackedTensors::pack(unsigned threads) {
  ckpt::parallel_for(tensors_.size(), threads, [&](std::size_t i) {
    Tensor& tensor = tensors_[i];
    tensor.payload = ckpt::detail::choose_packing({tensor.memory, tensor.entry.get()}, codec_);
    tensor.chunks.resize(std::max<std::size_t>(tensor.payload.chunks.stored.size(), 1));
  });
  const std::vector<Piece> all = pieces();
  ckpt::parallel_for(all.size(), threads, [&](std::size_t i) { pack(all[i]); });
}

void PackedTensors::unpack(unsigned threads) {
  const std::vector<Piece> all = pieces();
  ckpt::parallel_for(all.size(), threads, [&](std::size_t i) { unpack(all[i]); });
}

void PackedTensors::copy() {
  for (Tensor& tensor : tensors_) {
    const core::Bytes plain = tensor.memory->memory();
    std::memcpy(tensor.unpacked.data(), plain.data(), plain.size());
  }
}

std::uint64_t PackedTensors::bytes() const {
  std::uint64_t total = 0;
  for (const Tensor& tensor : tensors_) total += tensor.unpacked.size();
  return total;
}

std::uint64_t PackedTensors::stored_bytes() const {
  std::uint64_t total = 0;
  for (const Tensor& tensor : tensors_) {
    for (const core::ByteVector& chunk : tensor.chunks) total += chunk.size();
  }
  return total;
}

std::uint64_t PackedTensors::sum64() const {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : tensors_) {
    for (std::size_t at = 0; at < tensor.unpacked.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, tensor.unpacked.data() + at, std::min<std::size_t>(8, tensor.unpacked.size() - at));
      sum += word;
    }
  }
  return sum;
}

void PackedTensors::require_same() const {
  for (const Tensor& tensor : tensors_) {
    if (std::ranges::equal(tensor.memory->memory(), tensor.unpacked)) continue;
    throw core::Error(core::ErrorCode::internal, "a tensor came back with other bytes than it had");
  }
}

}  // namespace bench
