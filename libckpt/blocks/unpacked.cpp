#include "libckpt/blocks/unpacked.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "libckpt/io/parallel_io.h"
#include "libckpt/io/unit_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxElements = 256;       ///< of a block
constexpr std::uint64_t kPiece = 256 << 10;     ///< bytes of the wider side that one thread converts at once
constexpr std::uint64_t kPiecesOfThreads = 16;  ///< of a read by several threads

/// Units of `to` bytes that come from as many units of `from` bytes each, read and converted in pieces by `threads`.
/// Each holds a piece of what it converts.
class BlockwiseSource : public UnitSource {
 public:
  BlockwiseSource(SourcePtr source, std::uint64_t from, std::uint64_t to, unsigned threads)
      : UnitSource(source->size() / from, to, at_once(from, to, threads)),
        source_(std::move(source)),
        from_(from),
        threads_(threads) {
    if (source_->size() % from != 0) throw Error(ErrorCode::corrupt, "a tensor ends within a quantised block");
  }

  void require_unchanged() const override { source_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { source_->visit_checked(see); }

 protected:
  virtual void convert(Bytes in, MutableBytes out, std::uint64_t units) const = 0;

 private:
  static std::uint64_t piece(std::uint64_t from, std::uint64_t to) { return kPiece / std::max(from, to); }
  static std::uint64_t at_once(std::uint64_t from, std::uint64_t to, unsigned threads) {
    return piece(from, to) * (threads == 1 ? 1 : kPiecesOfThreads);
  }

  void compute(std::uint64_t first, MutableBytes out) const override {
    const std::uint64_t units = out.size() / unit();
    const std::uint64_t piece_units = piece(from_, unit());
    parallel_for((units + piece_units - 1) / piece_units, threads_, [&](std::size_t i) {
      const std::uint64_t begin = i * piece_units;
      const std::uint64_t count = std::min(piece_units, units - begin);
      core::ByteVector raw(count * from_);
      source_->read((first + begin) * from_, raw);
      convert(raw, out.subspan(begin * unit(), count * unit()), count);
    });
  }

  SourcePtr source_;
  std::uint64_t from_;
  unsigned threads_;
};

class UnpackedSource final : public BlockwiseSource {
 public:
  UnpackedSource(SourcePtr blocks, const BlockCodec& codec, unsigned threads)
      : BlockwiseSource(std::move(blocks), codec.bytes, codec.elements * sizeof(float), threads), codec_(codec) {}

 private:
  void convert(Bytes in, MutableBytes out, std::uint64_t units) const override {
    float values[kMaxElements];
    std::size_t width = codec_.elements * sizeof(float);
    for (std::uint64_t i = 0; i < units; ++i) {
      codec_.unpack(in.data() + i * codec_.bytes, values);
      std::memcpy(out.data() + i * width, values, width);
    }
  }

  const BlockCodec& codec_;
};

class PackedSource final : public BlockwiseSource {
 public:
  PackedSource(SourcePtr values, const BlockCodec& codec, std::string name, unsigned threads)
      : BlockwiseSource(std::move(values), codec.elements * sizeof(float), codec.bytes, threads),
        codec_(codec),
        name_(std::move(name)) {}

 private:
  void convert(Bytes in, MutableBytes out, std::uint64_t units) const override {
    float values[kMaxElements];
    std::size_t width = codec_.elements * sizeof(float);
    for (std::uint64_t i = 0; i < units; ++i) {
      std::memcpy(values, in.data() + i * width, width);
      bool finite = std::all_of(values, values + codec_.elements, [](float value) { return std::isfinite(value); });
      if (!finite) {
        throw Error(ErrorCode::refused, core::quote(name_) + " has a value that is not finite, which blocks of type " +
                                            std::string(codec_.name) + " cannot hold; keep the tensor as it is");
      }
      codec_.pack(values, out.data() + i * codec_.bytes);
    }
  }

  const BlockCodec& codec_;
  std::string name_;
};

}  // namespace

EntryPtr unpacked(const Entry& entry, unsigned threads) {
  const BlockCodec* codec = find_block_codec(entry.blocks->name);
  if (codec == nullptr) return nullptr;
  auto values = std::make_shared<Entry>(entry);
  values->dtype = DType::f32;
  values->shape = entry.blocks->shape;
  values->blocks.reset();
  values->view.reset();
  if (entry.bytes != nullptr) values->bytes = std::make_shared<UnpackedSource>(entry.bytes, *codec, threads);
  return values;
}

EntryPtr with_values(EntryPtr entry) {
  if (!entry->blocks) return entry;
  EntryPtr values = unpacked(*entry);
  return values == nullptr ? entry : values;
}

EntryPtr packed(const Entry& entry, const BlockCodec& codec, const std::string& name, unsigned threads) {
  auto blocks = std::make_shared<Entry>(entry);
  blocks->blocks = BlockType{std::string(codec.name), entry.shape};
  blocks->dtype = DType::u8;
  blocks->view.reset();
  std::int64_t& row = blocks->shape[blocks->shape.size() - 1];
  row = row / codec.elements * codec.bytes;
  if (entry.bytes != nullptr) blocks->bytes = std::make_shared<PackedSource>(entry.bytes, codec, name, threads);
  return blocks;
}

}  // namespace ckpt::detail
