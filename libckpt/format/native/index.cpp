// The sections of the packed index. Unknown optional sections are skipped, unknown required ones refused.

#include <algorithm>
#include <bit>
#include <cassert>

#include "libckpt/format/native/index_tables.h"
#include "libckpt/format/native/layout.h"
#include "libckpt/io/mentions.h"
#include "libckpt/io/packed.h"
#include "libckpt/io/word_planes.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

enum SectionId : std::uint16_t {
  kRanges = 1,
  kPayloads = 2,
  kChunks = 3,
  kStorages = 4,
  kTree = 5,
  kMetadata = 6,
  kWrappers = 7,
  kParity = 8,
  kFiles = 9,
};
constexpr std::uint16_t kRequired = 1;
constexpr std::size_t kPayloadBytes = TableRows::kPayloadBytes;
constexpr std::size_t kCodecAt = 40;  ///< in such a row
constexpr std::size_t kRangeBytes = 32;
constexpr std::size_t kParityBytes = 32;

[[noreturn]] void throw_corrupt(const std::string& what) {
  throw Error(ErrorCode::corrupt, "the index contradicts itself: " + what);
}

void put_hash(core::ByteVector& out, const Hash128& hash) {
  core::append_le<std::uint64_t>(out, hash.low);
  core::append_le<std::uint64_t>(out, hash.high);
}

Hash128 take_hash(ByteCursor& in) {
  Hash128 hash;
  hash.low = in.take<std::uint64_t>();
  hash.high = in.take<std::uint64_t>();
  return hash;
}

/// The minor version that a section came with.
std::uint16_t minor_of(SectionId id) {
  if (id == kFiles) return 5;
  return id <= kRequiredSections ? 0 : id == kWrappers ? 1 : 2;
}

/// Readers may do without the record of wrappers, which came with version 1.1. Parity data came with version 1.2; who
/// does not know it takes it for bytes that belong to nothing, and would edit the file without making it anew. Files
/// that hold payloads of this one came with version 1.5.
void put_section(core::ByteVector& out, SectionId id, core::Bytes content) {
  core::append_le<std::uint16_t>(out, id);
  core::append_le<std::uint16_t>(out, id == kWrappers ? 0 : kRequired);
  core::append_le<std::uint16_t>(out, kNativeMajor);
  core::append_le<std::uint16_t>(out, minor_of(id));
  core::append_le<std::uint64_t>(out, content.size());
  core::append(out, content);
}

core::ByteVector encode_ranges(const NativeIndex& index) {
  core::ByteVector out;
  for (const StampedRange& range : index.ranges) {
    core::append_le<std::uint64_t>(out, range.offset);
    core::append_le<std::uint64_t>(out, range.length);
    put_hash(out, range.hash);
  }
  return out;
}

core::ByteVector encode_payloads(const NativeIndex& index) {
  core::ByteVector out;
  out.reserve(index.payloads.size() * kPayloadBytes);
  for (const Payload& payload : index.payloads) {
    core::append_le<std::uint64_t>(out, payload.offset);
    core::append_le<std::uint64_t>(out, payload.size);
    core::append_le<std::uint64_t>(out, payload.stored);
    put_hash(out, payload.hash);
    core::append_le<std::uint8_t>(out, static_cast<std::uint8_t>(payload.codec));
    bool fast = payload.codec == NativeCodec::fast;
    core::append_le<std::uint8_t>(out, fast ? static_cast<std::uint8_t>(payload.floats) : payload.shuffle);
    out.resize(out.size() + 6);
  }
  return out;
}

core::ByteVector encode_chunks(const NativeIndex& index) {
  core::ByteVector out;
  for (const Payload& payload : index.payloads) {
    if (!is_packed(payload)) continue;
    core::append_le<std::uint64_t>(out, payload.chunks.run);
    core::append_le<std::uint32_t>(out, payload.chunks.chunk);
    core::append_le<std::uint32_t>(out, static_cast<std::uint32_t>(payload.chunks.stored.size()));
    for (std::uint32_t stored : payload.chunks.stored) core::append_le<std::uint32_t>(out, stored);
  }
  return out;
}

void put_shape(core::ByteVector& out, const core::Shape& shape) {
  for (std::int64_t size : shape) put_count(out, static_cast<std::uint64_t>(size));
}

core::Shape take_shape(ByteCursor& in, std::size_t rank) {
  core::Shape shape(rank, 0);
  for (std::int64_t& size : shape) {
    std::uint64_t value = take_count(in);
    if (value > INT64_MAX) throw_corrupt("a dimension does not fit 63 bits");
    size = static_cast<std::int64_t>(value);
  }
  return shape;
}

core::DType take_dtype(ByteCursor& in) {
  auto code = in.take<std::uint8_t>();
  if (auto dtype = dtype_of_code(code)) return *dtype;
  throw Error(ErrorCode::unsupported, "a storage has dtype number " + std::to_string(code) +
                                          ", which this version does not know; use a newer one");
}

core::ByteVector encode_storages(const NativeIndex& index) {
  core::ByteVector out;
  for (const StorageRecord& storage : index.storages) {
    put_count(out, storage.payload);
    out.push_back(static_cast<std::byte>(dtype_code(storage.dtype)));
    put_text(out, storage.location);
    put_count(out, storage.order ? storage.order->shape.size() + 1 : 0);
    if (!storage.order) continue;
    out.push_back(static_cast<std::byte>(dtype_code(storage.order->dtype)));
    put_shape(out, storage.order->shape);
    put_shape(out, storage.order->strides);
  }
  return out;
}

core::ByteVector encode_metadata(const NativeIndex& index) {
  core::ByteVector out;
  for (const auto& [key, value] : index.metadata) {
    put_text(out, key);
    put_text(out, value);
  }
  return out;
}

core::ByteVector encode_wrappers(const NativeIndex& index) {
  core::ByteVector out;
  for (const WrapperUse& use : index.wrappers) {
    put_text(out, use.state_dict);
    put_text(out, use.prefix);
    put_count(out, use.keys);
  }
  return out;
}

core::ByteVector encode_parity(const ParityLayout& parity, std::uint64_t user_block) {
  core::ByteVector out;
  core::append_le<std::uint64_t>(out, parity.covered - user_block);
  core::append_le<std::uint64_t>(out, parity.groups);
  core::append_le<std::uint32_t>(out, parity.block);
  core::append_le<std::uint32_t>(out, parity.parity);
  core::append_le<std::uint64_t>(out, std::bit_cast<std::uint64_t>(parity.share));
  return out;
}

void parse_parity(ByteCursor in, const NativeHeader& header, NativeIndex& index) {
  ParityLayout& parity = index.parity.emplace();
  parity.covered = core::checked_add(in.take<std::uint64_t>(), header.user_block);
  parity.groups = in.take<std::uint64_t>();
  parity.block = in.take<std::uint32_t>();
  parity.parity = in.take<std::uint32_t>();
  parity.share = std::bit_cast<double>(in.take<std::uint64_t>());
  if (!is_possible(parity) || parity.end() != header.user_block + header.body_size || !in.at_end()) {
    throw_corrupt("the place of its parity data is impossible");
  }
}

core::ByteVector encode_files(const NativeIndex& index) {
  core::ByteVector out;
  for (const std::string& name : index.files) put_text(out, name);
  return out;
}

/// Names in the folder of the file, and nothing that leads out of it.
void parse_files(ByteCursor in, NativeIndex& index) {
  while (!in.at_end()) {
    index.files.push_back(take_string(in));
    if (!is_plain_name(index.files.back())) {
      throw_corrupt("tensors are to lie in " + core::quote(index.files.back()) + ", which is no name in its folder");
    }
  }
}

void check_files(const NativeIndex& index) {
  if (index.files.size() > index.payloads.size()) throw_corrupt("it names more files than it has tensors in them");
  for (const Payload& payload : index.payloads) {
    if (payload.codec != NativeCodec::elsewhere) continue;
    if (payload.offset >= index.files.size()) throw_corrupt("a tensor lies in a file that it does not name");
    if (payload.stored != 0) throw_corrupt("a tensor lies in another file and takes room in this one");
  }
}

void parse_wrappers(ByteCursor in, NativeIndex& index) {
  index.has_wrappers = true;
  while (!in.at_end()) {
    WrapperUse& use = index.wrappers.emplace_back();
    use.state_dict = take_string(in);
    use.prefix = take_string(in);
    use.keys = take_count(in);
  }
}

void parse_ranges(ByteCursor in, NativeIndex& index) {
  while (!in.at_end()) {
    auto offset = in.take<std::uint64_t>();
    auto length = in.take<std::uint64_t>();
    index.ranges.push_back({offset, length, take_hash(in)});
  }
}

/// In place of a width for shuffling, the codec fast keeps what it packs.
void take_float_kind(Payload& payload) {
  payload.floats = static_cast<FloatKind>(std::exchange(payload.shuffle, 0));
  for (FloatKind kind : {FloatKind::f16, FloatKind::bf16, FloatKind::f32}) {
    if (payload.floats == kind) return;
  }
  throw_corrupt("a tensor is packed as floats of dtype number " + std::to_string(static_cast<int>(payload.floats)));
}

Payload take_payload(ByteCursor& in) {
  Payload payload;
  payload.offset = in.take<std::uint64_t>();
  payload.size = in.take<std::uint64_t>();
  payload.stored = in.take<std::uint64_t>();
  payload.hash = take_hash(in);
  auto codec = in.take<std::uint8_t>();
  payload.shuffle = in.take<std::uint8_t>();
  in.skip(6);
  if (codec > static_cast<std::uint8_t>(NativeCodec::trimmed)) {
    throw Error(ErrorCode::unsupported,
                "a tensor is packed with codec number " + std::to_string(codec) + "; use a newer version");
  }
  payload.codec = static_cast<NativeCodec>(codec);
  if (payload.codec == NativeCodec::fast) take_float_kind(payload);
  if (payload.codec == NativeCodec::raw && payload.stored != payload.size) {
    throw_corrupt("a raw payload has two sizes");
  }
  return payload;
}

/// How many there are.
std::uint64_t count_payloads(core::Bytes table, const Limits& limits) {
  std::uint64_t count = table.size() / kPayloadBytes;
  if (count <= 2 * limits.max_tensors) return count;
  throw Error(ErrorCode::refused, "the file holds " + core::format_count(count) + " payloads; the limit is " +
                                      core::format_count(limits.max_tensors) + " tensors");
}

void parse_payloads(core::Bytes table, const Limits& limits, NativeIndex& index) {
  index.payloads.reserve(count_payloads(table, limits));
  ByteCursor in(table, "the table of payloads");
  while (!in.at_end()) index.payloads.push_back(take_payload(in));
}

/// Whoever adds differences takes each chunk, and what a run leaves of the last one, as whole words.
void check_words(const Payload& payload) {
  if (payload.codec != NativeCodec::delta) return;
  const std::uint64_t run = payload.chunks.run, chunk = payload.chunks.chunk;
  const std::uint32_t width = payload.shuffle;
  if (is_word_width(width) && chunk % width == 0 && run % width == 0) return;
  throw_corrupt("chunks of " + std::to_string(chunk) + " bytes in runs of " + std::to_string(run) +
                " hold no whole words of " + std::to_string(width));
}

/// The chunk of `payload` can be cut as its codec cuts it.
void check_floats(const Payload& payload) {
  if (payload.codec != NativeCodec::fast || payload.chunks.chunk % float_width(payload.floats) == 0) return;
  throw_corrupt("chunks of " + std::to_string(payload.chunks.chunk) + " bytes hold no whole floats");
}

void check_chunks(const Payload& payload, std::uint64_t count) {
  const ChunkTable& chunks = payload.chunks;
  if (chunks.chunk == 0 || chunks.chunk > kMaxChunkBytes || chunks.run == 0 || payload.size % chunks.run != 0) {
    throw_corrupt("chunks of " + std::to_string(chunks.chunk) + " bytes do not tile a payload of " +
                  std::to_string(payload.size));
  }
  std::uint64_t expected = core::checked_mul(payload.size / chunks.run, chunks.per_run());
  if (count != expected)
    throw_corrupt("a payload has " + std::to_string(count) + " chunks, not " + std::to_string(expected));
}

/// Of a trimmed chunk only zeros are left out, and never all of its bytes.
void check_trimmed(const Payload& payload) {
  if (payload.codec != NativeCodec::trimmed) return;
  for (const std::uint32_t stored : payload.chunks.stored) {
    if (stored > 0 && stored <= payload.chunks.chunk) continue;
    throw_corrupt("a chunk of " + std::to_string(payload.chunks.chunk) + " bytes takes " + std::to_string(stored) +
                  " without the zeros at its end");
  }
}

/// Of a payload that is packed.
void take_chunks(ByteCursor& in, Payload& payload) {
  payload.chunks.run = in.take<std::uint64_t>();
  payload.chunks.chunk = in.take<std::uint32_t>();
  auto count = in.take<std::uint32_t>();
  check_words(payload);
  check_chunks(payload, count);
  check_floats(payload);
  ByteCursor sizes(in.take_bytes(std::uint64_t{count} * 4), "a chunk table");
  std::uint64_t total = 0;
  payload.chunks.stored.resize(count);
  for (std::uint32_t& stored : payload.chunks.stored) total += stored = sizes.take<std::uint32_t>();
  if (total != payload.stored) throw_corrupt("the chunks of a payload do not add up");
  check_trimmed(payload);
}

void require_end_of_chunks(const ByteCursor& in) {
  if (!in.at_end()) throw_corrupt("bytes are left after the chunk tables");
}

void parse_chunks(ByteCursor in, NativeIndex& index) {
  for (Payload& payload : index.payloads) {
    if (is_packed(payload)) take_chunks(in, payload);
  }
  require_end_of_chunks(in);
}

StorageRecord take_storage(ByteCursor& in, std::uint64_t payloads, const Limits& limits) {
  StorageRecord storage;
  std::uint64_t payload = take_count(in);
  if (payload >= payloads) throw_corrupt("a storage names a payload that is not there");
  storage.payload = static_cast<std::uint32_t>(payload);
  storage.dtype = take_dtype(in);
  storage.location = take_string(in);
  std::uint64_t rank = take_count(in);
  if (rank == 0) return storage;
  if (--rank > limits.max_rank) throw Error(ErrorCode::refused, "a storage has too many dimensions");
  MemoryOrder& order = storage.order.emplace();
  order.dtype = take_dtype(in);
  order.shape = take_shape(in, rank);
  order.strides = take_shape(in, rank);
  return storage;
}

void parse_storages(ByteCursor in, const Limits& limits, NativeIndex& index) {
  while (!in.at_end()) index.storages.push_back(take_storage(in, index.payloads.size(), limits));
}

void parse_metadata(ByteCursor in, NativeIndex& index) {
  while (!in.at_end()) {
    std::string key = take_string(in);
    index.metadata.emplace_back(std::move(key), take_string(in));
  }
}

struct Section {
  std::uint16_t id = 0;
  core::Bytes content;
};

/// Known sections in file order; each at most once, ids rising, so that there is one way to write an index.
std::vector<Section> split_sections(core::Bytes bytes) {
  std::vector<Section> sections;
  ByteCursor in(bytes, "the index");
  std::uint16_t last = 0;
  while (!in.at_end()) {
    auto id = in.take<std::uint16_t>();
    auto flags = in.take<std::uint16_t>();
    auto major = in.take<std::uint16_t>();
    auto minor = in.take<std::uint16_t>();
    core::Bytes content = in.take_bytes(in.take<std::uint64_t>());
    if (id <= last) throw_corrupt("section " + std::to_string(id) + " comes after section " + std::to_string(last));
    last = id;
    if (id <= kFiles) {
      sections.push_back({id, content});
    } else if ((flags & kRequired) != 0) {
      throw Error(ErrorCode::unsupported, "the file needs version " + std::to_string(major) + "." +
                                              std::to_string(minor) + " of the native format (its index has section " +
                                              std::to_string(id) + "); this library knows version " +
                                              std::to_string(kNativeMajor) + "." + std::to_string(kNativeMinor));
    }
  }
  return sections;
}

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

bool begins_before(const Extent& a, const Extent& b) {
  return a.offset < b.offset;
}

/// What is no payload, in the order of the file.
std::vector<Extent> other_extents(const NativeIndex& index, const NativeHeader& header) {
  std::vector<Extent> others;
  for (const StampedRange& range : index.ranges) others.push_back({range.offset, range.length});
  if (index.parity) {
    others.push_back({index.parity->covered - header.user_block, index.parity->end() - index.parity->covered});
  }
  std::sort(others.begin(), others.end(), begins_before);
  return others;
}

/// Where they end who come one behind the other.
class ExtentRow {
 public:
  void add(const Extent& extent) {
    if (extent.offset < end_) throw_corrupt("two parts of the file overlap at byte " + std::to_string(extent.offset));
    end_ = core::checked_add(extent.offset, extent.length);
  }
  std::uint64_t end() const { return end_; }

 private:
  std::uint64_t end_ = 0;
};

/// Calls `visit` for what payloads take of the file, in its order. A writer lists them so, and then none is sorted.
template <class Visit>
void visit_in_order(const LargeVector<Payload>& payloads, const Visit& visit) {
  auto before = [](const Payload& a, const Payload& b) { return a.offset < b.offset; };
  auto takes_nothing = [](const Payload& payload) { return payload.stored == 0; };
  if (std::ranges::none_of(payloads, takes_nothing) && std::ranges::is_sorted(payloads, before)) {
    for (const Payload& payload : payloads) visit(Extent{payload.offset, payload.stored});
    return;
  }
  std::vector<Extent> extents;
  for (const Payload& payload : payloads) {
    if (payload.stored > 0) extents.push_back({payload.offset, payload.stored});
  }
  std::sort(extents.begin(), extents.end(), begins_before);
  for (const Extent& extent : extents) visit(extent);
}

/// Payloads and ranges lie inside the file, behind one another, and none overlaps another.
class ExtentCheck {
 public:
  ExtentCheck(const NativeIndex& index, const NativeHeader& header)
      : others_(other_extents(index, header)), most_(header.body_size) {}
  /// Payloads come in the order of the file.
  void add(const Extent& payload) {
    while (next_ < others_.size() && begins_before(others_[next_], payload)) row_.add(others_[next_++]);
    row_.add(payload);
  }
  void finish() {
    while (next_ < others_.size()) row_.add(others_[next_++]);
    if (row_.end() > most_)
      throw_corrupt("a part ends at byte " + std::to_string(row_.end()) + " after the user block");
  }

 private:
  std::vector<Extent> others_;
  std::size_t next_ = 0;
  ExtentRow row_;
  std::uint64_t most_;
};

void check_extents(const NativeIndex& index, const NativeHeader& header) {
  ExtentCheck check(index, header);
  visit_in_order(index.payloads, [&](const Extent& payload) { check.add(payload); });
  check.finish();
}

/// A row of a payload that lies in the file as it is, of which 100,000 are checked: nothing is made of it. nullopt
/// where it is anything else, or wrong.
std::optional<Extent> plain_extent(core::Bytes row) {
  const auto size = core::load_le<std::uint64_t>(row.data() + 8);
  const auto stored = core::load_le<std::uint64_t>(row.data() + 16);
  if (row[kCodecAt] != std::byte{0} || stored != size || stored == 0) return std::nullopt;
  return Extent{core::load_le<std::uint64_t>(row.data()), stored};
}

/// Errors also where payloads do not lie in the order of their numbers.
TableRows check_rows(const std::vector<Section>& sections, const NativeIndex& rest, const NativeHeader& header,
                     const Limits& limits) {
  TableRows rows;
  rows.payloads = sections[1].content;
  const std::uint64_t count = count_payloads(rows.payloads, limits);
  ByteCursor in(rows.payloads, "the table of payloads");
  ByteCursor chunks(sections[2].content, "the chunk tables");
  ExtentCheck extents(rest, header);
  while (!in.at_end()) {
    const core::Bytes row = in.take_bytes(kPayloadBytes);
    if (const std::optional<Extent> plain = plain_extent(row)) {
      extents.add(*plain);
      continue;
    }
    ByteCursor fields(row);
    Payload payload = take_payload(fields);
    if (payload.codec == NativeCodec::elsewhere) throw_corrupt("a tensor lies in another file");
    if (payload.stored > 0) extents.add({payload.offset, payload.stored});
    if (!is_packed(payload)) continue;
    take_chunks(chunks, payload);
    rows.packed_bytes += payload.size;
  }
  require_end_of_chunks(chunks);
  extents.finish();
  ByteCursor storages(sections[3].content, "the table of storages");
  while (!storages.at_end()) {
    const StorageRecord storage = take_storage(storages, count, limits);
    rows.storage_payloads.push_back(storage.order ? TableRows::kReordered : storage.payload);
  }
  return rows;
}

std::vector<Section> required_sections(const SharedBytes& bytes) {
  std::vector<Section> sections = split_sections(bytes.bytes());
  if (sections.size() < kRequiredSections || sections[kRequiredSections - 1].id != kMetadata) {
    throw_corrupt("a section is missing");
  }
  return sections;
}

/// The sections behind the storages.
void parse_rest(const SharedBytes& bytes, const std::vector<Section>& sections, const NativeHeader& header,
                NativeIndex& index) {
  index.tree = bytes.part(sections[4].content);
  parse_metadata(ByteCursor(sections[5].content, "the metadata"), index);
  for (std::size_t i = kRequiredSections; i < sections.size(); ++i) {
    ByteCursor content(sections[i].content, "an optional section");
    if (sections[i].id == kWrappers) parse_wrappers(content, index);
    if (sections[i].id == kParity) parse_parity(content, header, index);
    if (sections[i].id == kFiles) parse_files(content, index);
  }
}

}  // namespace

core::ByteVector encode_index(const NativeIndex& index, std::uint64_t user_block) {
  core::ByteVector out;
  put_section(out, kRanges, encode_ranges(index));
  put_section(out, kPayloads, encode_payloads(index));
  put_section(out, kChunks, encode_chunks(index));
  put_section(out, kStorages, encode_storages(index));
  put_section(out, kTree, index.tree.bytes());
  put_section(out, kMetadata, encode_metadata(index));
  put_section(out, kWrappers, encode_wrappers(index));
  if (index.parity) put_section(out, kParity, encode_parity(*index.parity, user_block));
  if (!index.files.empty()) put_section(out, kFiles, encode_files(index));
  return out;
}

std::uint64_t encoded_size(const NativeIndex& index) {
  std::uint64_t size = (kRequiredSections + 1) * kSectionHead + index.ranges.size() * kRangeBytes +
                       index.payloads.size() * kPayloadBytes;
  for (const Payload& payload : index.payloads) {
    if (is_packed(payload)) size += 16 + payload.chunks.stored.size() * 4;
  }
  if (index.parity) size += kSectionHead + kParityBytes;
  if (!index.files.empty()) size += kSectionHead + encode_files(index).size();
  return size + encode_storages(index).size() + index.tree.size() + encode_metadata(index).size() +
         encode_wrappers(index).size();
}

NativeIndex parse_index(const SharedBytes& bytes, const NativeHeader& header, const Limits& limits) {
  NativeIndex index;
  const std::vector<Section> sections = required_sections(bytes);
  parse_ranges(ByteCursor(sections[0].content, "the table of ranges"), index);
  parse_payloads(sections[1].content, limits, index);
  parse_chunks(ByteCursor(sections[2].content, "the chunk tables"), index);
  parse_storages(ByteCursor(sections[3].content, "the table of storages"), limits, index);
  parse_rest(bytes, sections, header, index);
  check_files(index);
  check_extents(index, header);
  return index;
}

std::optional<LightIndex> parse_light_index(const SharedBytes& bytes, const NativeHeader& header,
                                            const Limits& limits) {
  try {
    LightIndex light;
    const std::vector<Section> sections = required_sections(bytes);
    parse_ranges(ByteCursor(sections[0].content, "the table of ranges"), light.rest);
    parse_rest(bytes, sections, header, light.rest);
    if (!light.rest.files.empty()) return std::nullopt;
    light.rows = check_rows(sections, light.rest, header, limits);
    return light;
  } catch (const Error&) {
    return std::nullopt;  // said by parse_index(), which looks at things in another order
  }
}

}  // namespace ckpt::detail
