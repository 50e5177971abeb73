#include "libckpt/transform/quantized_parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "libckpt/io/unit_source.h"
#include "libckpt/transform/cast_values.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::size_t kValueBytes = 4 << 20;  ///< of the values that are computed at a time
constexpr std::size_t kPackedBits = 32;
constexpr int kAwqOrder[] = {0, 4, 1, 5, 2, 6, 3, 7};  ///< the place of column c of eight in a word
constexpr float kFp4[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};

std::size_t rows_at_once(std::int64_t in) {
  return std::max<std::size_t>(32, kValueBytes / (static_cast<std::size_t>(in) * sizeof(float)));
}

/// Number `k` of a run of numbers of `bits` bits.
std::uint32_t number_at(const std::uint32_t* words, std::size_t k, int bits, std::size_t stride) {
  const std::size_t bit = k * static_cast<std::size_t>(bits);
  const std::size_t word = bit / kPackedBits;
  const std::size_t shift = bit % kPackedBits;
  std::uint64_t value = words[word * stride];
  const bool spans = shift + static_cast<std::size_t>(bits) > kPackedBits;
  if (spans) value |= static_cast<std::uint64_t>(words[(word + 1) * stride]) << kPackedBits;
  return static_cast<std::uint32_t>((value >> shift) & ((1U << bits) - 1));
}

std::vector<float> floats(core::Bytes bytes, DType dtype) {
  const std::size_t count = bytes.size() * 8 / static_cast<std::size_t>(core::bit_width(dtype));
  std::vector<float> out(count);
  cast_values(bytes, dtype, std::as_writable_bytes(std::span(out)), DType::f32);
  return out;
}

/// Columns [first, first + count) of a table of 32-bit words.
std::vector<std::uint32_t> word_columns(const PackedNumbers& table, std::size_t first, std::size_t count) {
  const auto rows = static_cast<std::size_t>(table.rows);
  std::vector<std::uint32_t> out(rows * count);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t at = row * static_cast<std::size_t>(table.words) + first;
    table.bytes->read(at * sizeof(std::uint32_t), std::as_writable_bytes(std::span(out).subspan(row * count, count)));
  }
  return out;
}

/// Rows [first, first + count) of a table of `columns` values.
std::vector<float> value_rows(const Entry& table, std::size_t first, std::size_t count, std::size_t columns) {
  const std::size_t bytes = columns * static_cast<std::size_t>(core::bit_width(table.dtype)) / 8;
  core::ByteVector raw(count * bytes);
  table.bytes->read(first * bytes, raw);
  return floats(raw, table.dtype);
}

/// Columns [first, first + count) of a table of `columns` values.
std::vector<float> value_columns(const Entry& table, std::size_t first, std::size_t count, std::size_t columns) {
  const std::size_t size = static_cast<std::size_t>(core::bit_width(table.dtype)) / 8;
  const std::size_t rows = table.numel() / columns;
  core::ByteVector raw(rows * count * size);
  for (std::size_t row = 0; row < rows; ++row) {
    table.bytes->read((row * columns + first) * size,
                      core::MutableBytes(raw).subspan(row * count * size, count * size));
  }
  return floats(raw, table.dtype);
}

/// The group of each input. Error(corrupt) for one that is not there.
std::vector<std::size_t> groups_of_inputs(const Entry* index, std::int64_t in, std::int64_t groups) {
  std::vector<std::size_t> out(static_cast<std::size_t>(in));
  if (index == nullptr) {
    const auto size = static_cast<std::size_t>(in / groups);
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = k / size;
    return out;
  }
  const core::ByteVector raw = read_all(*index->bytes);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const auto group = core::load_le<std::int32_t>(raw.data() + k * sizeof(std::int32_t));
    if (group < 0 || group >= groups) {
      throw Error(ErrorCode::corrupt, "input " + std::to_string(k) + " is in group " + std::to_string(group) + " of " +
                                          std::to_string(groups));
    }
    out[k] = static_cast<std::size_t>(group);
  }
  return out;
}

/// Values that follow from several sources.
class LayerSource : public UnitSource {
 public:
  void require_unchanged() const override {
    for (const SourcePtr& part : parts_) part->require_unchanged();
  }
  void visit_checked(const CheckedVisitor& see) const override {
    for (const SourcePtr& part : parts_) part->visit_checked(see);
  }

 protected:
  LayerSource(std::int64_t out, std::int64_t in)
      : UnitSource(static_cast<std::uint64_t>(out), static_cast<std::uint64_t>(in) * sizeof(float), rows_at_once(in)) {}
  void add_part(const SourcePtr& part) {
    if (part != nullptr) parts_.push_back(part);
  }
  void add_part(const EntryPtr& part) {
    if (part != nullptr) parts_.push_back(part->bytes);
  }

 private:
  std::vector<SourcePtr> parts_;
};

class ColumnSource final : public LayerSource {
 public:
  explicit ColumnSource(ColumnPacked layer) : LayerSource(layer.out, layer.in), layer_(std::move(layer)) {
    add_part(layer_.weight.bytes);
    add_part(layer_.zeros.bytes);
    add_part(layer_.scales);
    add_part(layer_.index);
  }

 private:
  /// Words that hold columns [first, first + count) of a table packed along its columns.
  struct Window {
    std::size_t word;   ///< the first one
    std::size_t words;  ///< in a row
    std::size_t skip;   ///< numbers before the first column
  };
  Window window(std::size_t first, std::size_t count) const {
    const auto bits = static_cast<std::size_t>(layer_.bits);
    // From a multiple of 32 columns on, which begins a word whatever the width of a number.
    const std::size_t begin = first / kPackedBits * kPackedBits;
    const std::size_t word = begin * bits / kPackedBits;
    const std::size_t end = ((first + count) * bits + kPackedBits - 1) / kPackedBits;
    return {word, end - word, first - begin};
  }
  std::uint32_t column(const std::uint32_t* row, std::size_t c) const {
    if (!layer_.awq) return number_at(row, c, layer_.bits, 1);
    return row[c / 8] >> (4 * kAwqOrder[c % 8]) & 0xf;
  }

  /// [groups, count]
  std::vector<float> zeros(std::size_t first, std::size_t count) const {
    std::vector<float> out(static_cast<std::size_t>(layer_.groups) * count);
    const int mask = (1 << layer_.bits) - 1;
    const Window part = window(first, count);
    const std::vector<std::uint32_t> words = word_columns(layer_.zeros, part.word, part.words);
    for (std::size_t g = 0; g < static_cast<std::size_t>(layer_.groups); ++g) {
      for (std::size_t c = 0; c < count; ++c) {
        const auto stored = static_cast<int>(column(words.data() + g * part.words, part.skip + c));
        out[g * count + c] = static_cast<float>((stored + layer_.zero_shift) & mask);
      }
    }
    return out;
  }

  void compute(std::uint64_t first, MutableBytes units) const override {
    const auto begin = static_cast<std::size_t>(first);
    const std::size_t count = units.size() / unit();
    const auto in = static_cast<std::size_t>(layer_.in);
    const std::vector<float> zero = zeros(begin, count);
    const std::vector<float> scale = value_columns(*layer_.scales, begin, count, static_cast<std::size_t>(layer_.out));
    const std::vector<std::size_t> group = groups_of_inputs(layer_.index.get(), layer_.in, layer_.groups);
    const Window part = layer_.awq ? window(begin, count) : Window{begin, count, 0};
    const std::vector<std::uint32_t> words = word_columns(layer_.weight, part.word, part.words);
    std::vector<float> values(count * in);
    for (std::size_t k = 0; k < in; ++k) {
      for (std::size_t c = 0; c < count; ++c) {
        const std::uint32_t number = layer_.awq ? column(words.data() + k * part.words, part.skip + c)
                                                : number_at(words.data() + c, k, layer_.bits, count);
        const std::size_t at = group[k] * count + c;
        values[c * in + k] = scale[at] * (static_cast<float>(number) - zero[at]);
      }
    }
    std::memcpy(units.data(), values.data(), units.size());
  }

  ColumnPacked layer_;
};

class RowSource final : public LayerSource {
 public:
  explicit RowSource(RowPacked layer) : LayerSource(layer.out, layer.in), layer_(std::move(layer)) {
    add_part(layer_.weight);
    add_part(layer_.scale.scales);
    add_part(layer_.scale.divisor);
    add_part(layer_.zeros);
    add_part(layer_.index);
  }

 private:
  /// Scales, or zero points that lie as they do, of rows of blocks [first, first + count).
  std::vector<float> grid_rows(const Entry& table, std::size_t first, std::size_t count) const {
    return value_rows(table, first, count, static_cast<std::size_t>(layer_.scale.columns));
  }

  std::vector<float> scales(std::size_t first, std::size_t count) const {
    const ScaleGrid& grid = layer_.scale;
    std::vector<float> out;
    if (grid.exponents) {
      core::ByteVector raw(count * static_cast<std::size_t>(grid.columns));
      grid.scales->bytes->read(first * static_cast<std::size_t>(grid.columns), raw);
      for (std::byte exponent : raw) out.push_back(std::ldexp(1.0F, static_cast<int>(exponent) - 127));
    } else {
      out = grid_rows(*grid.scales, first, count);
    }
    if (grid.divisor == nullptr) return out;
    const std::vector<float> divisor = floats(read_all(*grid.divisor->bytes), grid.divisor->dtype);
    for (float& scale : out) scale /= divisor.at(0);
    return out;
  }

  /// [count, groups] of rows from `first` on, which are packed along the rows.
  std::vector<float> packed_zeros(std::size_t first, std::size_t count) const {
    const auto columns = static_cast<std::size_t>(layer_.scale.columns);
    const auto bits = static_cast<std::size_t>(layer_.bits);
    const std::size_t begin = first / kPackedBits * kPackedBits;
    const std::size_t word = begin * bits / kPackedBits;
    const std::size_t end = ((first + count) * bits + kPackedBits - 1) / kPackedBits;
    std::vector<std::uint32_t> words((end - word) * columns);
    layer_.zeros->bytes->read(word * columns * sizeof(std::uint32_t), std::as_writable_bytes(std::span(words)));
    std::vector<float> out(count * columns);
    for (std::size_t r = 0; r < count; ++r) {
      for (std::size_t g = 0; g < columns; ++g) {
        const std::uint32_t number = number_at(words.data() + g, first - begin + r, layer_.bits, columns);
        out[r * columns + g] = static_cast<float>(number) - static_cast<float>(1 << (layer_.bits - 1));
      }
    }
    return out;
  }

  /// The stored numbers of rows from `first` on.
  std::vector<float> numbers(std::size_t first, std::size_t count) const {
    const auto in = static_cast<std::size_t>(layer_.in);
    if (layer_.kind == RowPacked::Kind::plain) return value_rows(*layer_.weight, first, count, in);
    const bool fp4 = layer_.kind == RowPacked::Kind::fp4;
    const std::size_t row_bytes = layer_.weight->byte_size() / static_cast<std::size_t>(layer_.out);
    core::ByteVector raw(count * row_bytes);
    layer_.weight->bytes->read(first * row_bytes, raw);
    std::vector<float> out(count * in);
    std::vector<std::uint32_t> words(fp4 ? 0 : row_bytes / sizeof(std::uint32_t));
    for (std::size_t r = 0; r < count; ++r) {
      const std::byte* row = raw.data() + r * row_bytes;
      if (!fp4) std::memcpy(words.data(), row, row_bytes);
      for (std::size_t k = 0; k < in; ++k) {
        out[r * in + k] = fp4 ? fp4_at(row, k)
                              : static_cast<float>(number_at(words.data(), k, layer_.bits, 1)) -
                                    static_cast<float>(1 << (layer_.bits - 1));
      }
    }
    return out;
  }
  static float fp4_at(const std::byte* row, std::size_t k) {
    const unsigned code = static_cast<unsigned>(row[k / 2]) >> (k % 2 * 4) & 0xf;
    const float value = kFp4[code & 7];
    return (code & 8) != 0 ? -value : value;
  }

  void compute(std::uint64_t first, MutableBytes units) const override {
    const auto begin = static_cast<std::size_t>(first);
    const std::size_t count = units.size() / unit();
    const auto in = static_cast<std::size_t>(layer_.in);
    const ScaleGrid& grid = layer_.scale;
    const auto row_block = static_cast<std::size_t>(grid.row_block);
    const auto columns = static_cast<std::size_t>(grid.columns);
    const std::size_t block = begin / row_block;
    const std::size_t blocks = (begin + count - 1) / row_block - block + 1;
    const std::vector<float> scale = scales(block, blocks);
    std::vector<float> zero(scale.size(), 0);
    if (layer_.zeros != nullptr) {
      zero =
          layer_.kind == RowPacked::Kind::words ? packed_zeros(begin, count) : grid_rows(*layer_.zeros, block, blocks);
    }
    std::vector<std::size_t> group;
    if (layer_.index != nullptr) group = groups_of_inputs(layer_.index.get(), layer_.in, grid.columns);
    std::vector<float> values = numbers(begin, count);
    for (std::size_t r = 0; r < count; ++r) {
      const std::size_t row = ((begin + r) / row_block - block) * columns;
      for (std::size_t k = 0; k < in; ++k) {
        const std::size_t at = row + (group.empty() ? k / static_cast<std::size_t>(grid.column_block) : group[k]);
        float& value = values[r * in + k];
        value = (value - zero[at]) * scale[at];
      }
    }
    std::memcpy(units.data(), values.data(), units.size());
  }

  RowPacked layer_;
};

}  // namespace

SourcePtr column_packed_values(ColumnPacked layer) {
  return std::make_shared<ColumnSource>(std::move(layer));
}

SourcePtr row_packed_values(RowPacked layer) {
  return std::make_shared<RowSource>(std::move(layer));
}

}  // namespace ckpt::detail
