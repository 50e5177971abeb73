#include "libckpt/format/hdf5_write/payload_packing.h"

#include <algorithm>

#include "libckpt/format/hdf5_write/chunk_codec.h"
#include "libckpt/format/hdf5_write/hdf5_types.h"
#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/io/codec.h"
#include "libckpt/io/packed_differences.h"
#include "libckpt/io/word_planes.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kChunkTarget = 1ULL << 20;
constexpr std::uint64_t kMinPacked = 4096;         ///< smaller payloads would only grow
constexpr std::uint64_t kMinProbed = 64ULL << 10;  ///< smaller ones are not worth the chunk index
constexpr std::uint64_t kSample = 64ULL << 10;
constexpr std::uint64_t kSamples = 3;
// Packed bytes must be at most this part of the sample: below that, reading costs more time than it saves space.
constexpr double kWorthwhile = 0.75;

/// A few runs from the beginning, the middle and the end, whole elements each.
core::ByteVector sample_of(const ByteSource& source) {
  core::ByteVector sample(std::min(source.size(), kSamples * kSample));
  if (sample.size() == source.size()) {
    source.read(0, sample);
    return sample;
  }
  std::uint64_t step = (source.size() - kSample) / (kSamples - 1) / kSmallAlignment * kSmallAlignment;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    source.read(i * step, MutableBytes(sample).subspan(i * kSample, kSample));
  }
  return sample;
}

core::ByteVector shuffled(const core::ByteVector& bytes, std::uint32_t width) {
  core::ByteVector planes(bytes.size());
  shuffle(bytes, width, planes);
  return planes;
}

bool is_worthwhile(const core::ByteVector& sample, std::uint32_t width) {
  std::size_t least = zstd_compress(sample, kZstdLevel).size();
  if (width > 1) least = std::min(least, zstd_compress(shuffled(sample, width), kZstdLevel).size());
  return static_cast<double>(least) <= kWorthwhile * static_cast<double>(sample.size());
}

/// The width to shuffle by, 0 where that gains nothing.
std::uint8_t best_shuffle(const core::ByteVector& sample, std::uint32_t width) {
  if (width == 1) return 0;
  std::size_t apart = zstd_compress_planes(shuffled(sample, width), width, kZstdLevel).size();
  return apart < zstd_compress_planes(sample, 1, kZstdLevel).size() ? static_cast<std::uint8_t>(width) : 0;
}

/// What the codec fast makes of a type; none for those that it leaves as they are.
FloatKind float_kind(core::DType dtype) {
  if (dtype == core::DType::f16) return FloatKind::f16;
  if (dtype == core::DType::bf16) return FloatKind::bf16;
  return dtype == core::DType::f32 ? FloatKind::f32 : FloatKind::none;
}

ChunkTable chunk_table(const Hdf5Form& form, std::uint64_t size, std::uint64_t target) {
  std::vector<std::uint64_t> chunk = chunk_dims(form.dims, form.width, target);
  std::uint64_t bytes = form.width;
  std::uint64_t run = form.width;
  for (std::size_t d = form.dims.size(); d-- > 0;) {
    bytes *= chunk[d];
    run *= form.dims[d];
    if (chunk[d] < form.dims[d]) break;
  }
  ChunkTable table{run, static_cast<std::uint32_t>(bytes), {}};
  table.stored.resize(size / run * table.per_run());
  return table;
}

/// The largest words that elements of `width` bytes are made of.
std::uint32_t word_of(std::uint32_t width) {
  return width == 16 ? 8 : is_word_width(width) ? width : 1;
}

/// The packing that a payload of a native file has, when a dataset of this form can describe it.
std::optional<Payload> packing_of(const ByteSource& source, const Hdf5Form& form) {
  const auto* stored = stored_payload(source);
  if (stored == nullptr) return std::nullopt;
  const Payload& payload = stored->payload();
  Payload kept;
  kept.size = payload.size;
  if (payload.size == 0 || payload.codec == NativeCodec::raw) return kept;
  ChunkTable table = chunk_table(form, payload.size, payload.chunks.chunk);
  if (table.run != payload.chunks.run || table.chunk != payload.chunks.chunk) return std::nullopt;
  const std::uint32_t width = payload.codec == NativeCodec::delta ? word_of(form.width) : form.width;
  if (payload.shuffle != 0 && payload.shuffle != width) return std::nullopt;
  kept.codec = payload.codec;
  kept.shuffle = payload.shuffle;
  kept.floats = payload.floats;
  kept.chunks = std::move(table);
  return kept;
}

/// Floats whose exponents take few values; all else stays as it is.
Payload fast_packing(const PlannedPayload& planned, const Hdf5Form& form, Payload raw) {
  FloatKind kind = float_kind(planned.uniform->dtype);
  if (kind == FloatKind::none) return raw;
  core::ByteVector sample = sample_of(*planned.source);
  if (pack_floats(sample, kind).size() >= sample.size()) return raw;
  raw.codec = NativeCodec::fast;
  raw.floats = kind;
  raw.chunks = chunk_table(form, raw.size, kChunkTarget);
  return raw;
}

Payload delta_packing(const Hdf5Form& form, Payload raw) {
  raw.codec = NativeCodec::delta;
  raw.shuffle = static_cast<std::uint8_t>(word_of(form.width));
  raw.chunks = chunk_table(form, raw.size, kChunkTarget);
  return raw;
}

Payload trimmed_packing(const Hdf5Form& form, Payload raw, std::uint64_t part) {
  raw.codec = NativeCodec::trimmed;
  raw.chunks = chunk_table(form, raw.size, part);
  return raw;
}

}  // namespace

Payload choose_packing(const PlannedPayload& planned, Codec codec) {
  Payload raw;
  raw.size = planned.source->size();
  bool automatic = codec == Codec::automatic;
  if (codec == Codec::none || planned.uniform == nullptr || planned.uniform->shape.empty()) return raw;
  Hdf5Form form = hdf5_form(planned.uniform->dtype, planned.uniform->shape);
  if (automatic) {
    if (std::optional<Payload> known = packing_of(*planned.source, form)) return *known;
  }
  if (raw.size < (automatic ? kMinProbed : kMinPacked)) return raw;
  const bool differences = dynamic_cast<const DifferenceBytes*>(planned.source.get()) != nullptr;
  if (differences && codec != Codec::gzip) return delta_packing(form, raw);
  const auto* trimmed = dynamic_cast<const TrimmedBytes*>(planned.source.get());
  if (trimmed != nullptr && codec != Codec::gzip) return trimmed_packing(form, raw, trimmed->part());
  if (codec == Codec::fast) return fast_packing(planned, form, raw);
  core::ByteVector sample = sample_of(*planned.source);
  if (automatic && !is_worthwhile(sample, form.width)) return raw;
  Payload packed = raw;
  packed.codec = codec == Codec::gzip ? NativeCodec::gzip : NativeCodec::zstd;
  packed.shuffle = best_shuffle(sample, form.width);
  packed.chunks = chunk_table(form, raw.size, kChunkTarget);
  return packed;
}

bool same_packing(const Payload& stored, const Payload& wanted) {
  return stored.codec == wanted.codec && stored.shuffle == wanted.shuffle && stored.floats == wanted.floats &&
         stored.chunks.run == wanted.chunks.run && stored.chunks.chunk == wanted.chunks.chunk;
}

std::vector<std::uint64_t> chunk_dims(const std::vector<std::uint64_t>& dims, std::uint64_t width,
                                      std::uint64_t target) {
  std::vector<std::uint64_t> chunk(dims.size(), 1);
  std::uint64_t inner = width;
  for (std::size_t d = dims.size(); d-- > 0;) {
    std::uint64_t rows = std::clamp<std::uint64_t>(target / inner, 1, dims[d]);
    // As many chunks of equal parts waste less on the last one.
    std::uint64_t count = (dims[d] + rows - 1) / rows;
    chunk[d] = (dims[d] + count - 1) / count;
    if (chunk[d] < dims[d]) break;
    inner *= dims[d];
  }
  return chunk;
}

}  // namespace ckpt::detail
