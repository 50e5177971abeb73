#include "libckpt/format/onnx/onnx_values.h"

#include <algorithm>
#include <charconv>

#include "libckpt/format/corrupt.h"
#include "libckpt/io/joined_source.h"
#include "libckpt/io/unit_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kAtOnce = 64 << 10;

struct OnnxType {
  std::uint64_t number;
  DType dtype;  ///< that the values are read as
  OnnxField field;
  unsigned packed_bits = 0;      ///< of a value, where several share a byte and each gets one of its own
  std::string_view name = {};    ///< where it is not that of dtype
  std::string_view beyond = {};  ///< why it is left out
};
constexpr OnnxType kTypes[] = {
    {1, DType::f32, OnnxField::floats},
    {2, DType::u8, OnnxField::int32s},
    {3, DType::i8, OnnxField::int32s},
    {4, DType::u16, OnnxField::int32s},
    {5, DType::i16, OnnxField::int32s},
    {6, DType::i32, OnnxField::int32s},
    {7, DType::i64, OnnxField::int64s},
    {8, DType::u8, OnnxField::int32s, 0, "text", "text"},
    {9, DType::boolean, OnnxField::int32s},
    {10, DType::f16, OnnxField::int32s},
    {11, DType::f64, OnnxField::doubles},
    {12, DType::u32, OnnxField::uint64s},
    {13, DType::u64, OnnxField::uint64s},
    {14, DType::c64, OnnxField::floats},
    {15, DType::c128, OnnxField::doubles},
    {16, DType::bf16, OnnxField::int32s},
    {17, DType::f8_e4m3fn, OnnxField::int32s},
    {18, DType::f8_e4m3fnuz, OnnxField::int32s},
    {19, DType::f8_e5m2, OnnxField::int32s},
    {20, DType::f8_e5m2fnuz, OnnxField::int32s},
    {21, DType::u8, OnnxField::int32s, 4, "uint4"},
    {22, DType::i8, OnnxField::int32s, 4, "int4"},
    {23, DType::f4_e2m1fn_x2, OnnxField::int32s, 0, "float4_e2m1"},
    {24, DType::f8_e8m0fnu, OnnxField::int32s},
    {25, DType::u8, OnnxField::int32s, 2, "uint2"},
    {26, DType::i8, OnnxField::int32s, 2, "int2"},
    {27, DType::f6_e2m3, OnnxField::int32s, 0, "", "6-bit floats"},
    {28, DType::f6_e3m2, OnnxField::int32s, 0, "", "6-bit floats"},
};

const OnnxType* find_type(std::uint64_t number) {
  const auto* found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const OnnxType& type) { return type.number == number; });
  return found == std::end(kTypes) ? nullptr : found;
}

/// Values of 2 or 4 bits, the first in the low bits of a byte, as bytes.
class SpreadBits final : public UnitSource {
 public:
  SpreadBits(SourcePtr packed, std::uint64_t count, unsigned bits, bool is_signed)
      : UnitSource(count, 1, kAtOnce), packed_(std::move(packed)), bits_(bits), is_signed_(is_signed) {}
  void require_unchanged() const override { packed_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { packed_->visit_checked(see); }

 private:
  void compute(std::uint64_t first, MutableBytes units) const override {
    const unsigned in_byte = 8 / bits_;
    const std::uint64_t begin = first / in_byte;
    core::ByteVector packed((first + units.size() + in_byte - 1) / in_byte - begin);
    packed_->read(begin, packed);
    const unsigned top = 1U << (bits_ - 1);
    for (std::uint64_t i = 0; i < units.size(); ++i) {
      const std::uint64_t at = first + i;
      const auto byte = std::to_integer<unsigned>(packed[at / in_byte - begin]);
      const unsigned value = byte >> (at % in_byte * bits_) & ((1U << bits_) - 1);
      units[i] = static_cast<std::byte>(is_signed_ ? (value ^ top) - top : value);
    }
  }

  SourcePtr packed_;
  unsigned bits_;
  bool is_signed_;
};

/// Numbers of protobuf, each as long as it must be, as numbers of one width.
class Widened final : public UnitSource {
 public:
  /// REQUIRES: `starts` has the place of every kStep-th number.
  Widened(SourcePtr numbers, std::uint64_t count, std::uint64_t width, std::vector<std::uint64_t> starts)
      : UnitSource(count, width, kAtOnce), numbers_(std::move(numbers)), starts_(std::move(starts)) {}
  static constexpr std::uint64_t kStep = 4096;

  void require_unchanged() const override { numbers_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { numbers_->visit_checked(see); }

 private:
  void compute(std::uint64_t first, MutableBytes units) const override {
    ProtoReader in(*numbers_);
    ProtoRange rest = in.all();
    rest.begin = starts_[first / kStep];
    for (std::uint64_t i = 0; i < first % kStep; ++i) in.varint(rest);
    for (; !units.empty(); units = units.subspan(unit())) {
      std::byte value[8];
      core::store_le(value, in.varint(rest));
      std::copy_n(value, unit(), units.begin());
    }
  }

  SourcePtr numbers_;
  std::vector<std::uint64_t> starts_;
};

SourcePtr joined_ranges(const SourcePtr& file, const std::vector<ProtoRange>& ranges) {
  std::vector<SourcePtr> parts;
  for (const ProtoRange& range : ranges) parts.push_back(slice(file, range.begin, range.size()));
  return joined(std::move(parts));
}

[[noreturn]] void bad_count(const OnnxTensor& tensor, std::uint64_t there, std::uint64_t needed, const char* unit) {
  corrupt("its shape " + core::to_list(tensor.shape) + " of " + onnx_type_name(tensor.type) + " needs " +
          core::format_count(needed) + unit + " where " + core::format_count(there) + " are there");
}

/// Signed or not, a number fits when its bits do: types that protobuf lacks are written either way.
bool fits(std::uint64_t value, DType dtype) {
  if (dtype == DType::boolean) return value <= 1;
  const int bits = core::bit_width(dtype);
  if (bits >= 64) return true;
  const auto number = static_cast<std::int64_t>(value);
  return number >= -(std::int64_t{1} << (bits - 1)) && number < (std::int64_t{1} << bits);
}

/// `bytes`: of the values as the file packs them, each number of protobuf being an element of `type` or one byte.
SourcePtr widened(const OnnxTensor& tensor, const OnnxType& type, SourcePtr numbers, std::uint64_t bytes) {
  const bool bytewise = type.packed_bits > 0 || type.dtype == DType::f4_e2m1fn_x2;
  const DType element = bytewise ? DType::u8 : type.dtype;
  const auto width = static_cast<std::uint64_t>(std::max(core::bit_width(element), 8)) / 8;
  ProtoReader in(*numbers);
  ProtoRange rest = in.all();
  std::vector<std::uint64_t> starts;
  std::uint64_t count = 0;
  for (; rest.begin < rest.end; ++count) {
    if (count % Widened::kStep == 0) starts.push_back(rest.begin);
    const std::uint64_t value = in.varint(rest);
    if (fits(value, element)) continue;
    corrupt("its value " + core::format_count(count) + " is " + std::to_string(static_cast<std::int64_t>(value)) +
            ", which no " + onnx_type_name(tensor.type) + " is");
  }
  if (count != bytes / width) bad_count(tensor, count, bytes / width, " numbers");
  return std::make_shared<Widened>(std::move(numbers), count, width, std::move(starts));
}

std::uint64_t number_in(const std::string& text, const std::string& key) {
  std::uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  corrupt("the " + key + " of its place in another file is " + core::quote(text, 40) + ", which is no number of bytes");
}

SourcePtr external_values(const OnnxTensor& tensor, const OnnxFiles& files, std::uint64_t bytes) {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
  for (const auto& [key, text] : tensor.place) {
    if (key == "location") location = text;
    if (key == "offset") offset = number_in(text, key);
    if (key == "length") length = number_in(text, key);
  }
  if (location.empty()) corrupt("its values are in another file, which is not named");
  return core::with_context("the data file " + core::quote(location), [&] {
    SourcePtr file = files(location);
    const std::uint64_t size = file->size();
    const std::uint64_t there = length.value_or(offset < size ? size - offset : 0);
    if (there != bytes) bad_count(tensor, there, bytes, " bytes");
    if (offset > size || bytes > size - offset) {
      corrupt("it has " + core::format_count(size) + " bytes, and the values would be bytes " +
              core::format_count(offset) + " and " + core::format_count(bytes) + " on");
    }
    return slice(file, offset, bytes);
  });
}

/// As the file packs them.
SourcePtr stored_values(const OnnxTensor& tensor, const OnnxType& type, const SourcePtr& file, const OnnxFiles& files,
                        std::uint64_t bytes) {
  const bool raw = tensor.has_raw && tensor.raw.size() > 0;
  std::size_t ways = (raw ? 1 : 0) + (tensor.external ? 1 : 0);
  for (const auto& numbers : tensor.numbers) ways += numbers.empty() ? 0 : 1;
  if (ways > 1) corrupt("its values are there more than once");
  if (tensor.external) return external_values(tensor, files, bytes);
  if (raw || ways == 0) {
    if (tensor.raw.size() != bytes) bad_count(tensor, tensor.raw.size(), bytes, " bytes");
    return bytes == 0 ? memory_source({}) : slice(file, tensor.raw.begin, bytes);
  }
  const auto& numbers = tensor.numbers[static_cast<std::size_t>(type.field)];
  if (numbers.empty()) corrupt("its values are in the field of another type than " + onnx_type_name(tensor.type));
  SourcePtr source = joined_ranges(file, numbers);
  if (type.field != OnnxField::floats && type.field != OnnxField::doubles) {
    return widened(tensor, type, std::move(source), bytes);
  }
  if (source->size() != bytes) bad_count(tensor, source->size(), bytes, " bytes");
  return source;
}

}  // namespace

std::string onnx_type_name(std::uint64_t type) {
  const OnnxType* known = find_type(type);
  if (known == nullptr) return "type " + std::to_string(type);
  return std::string(known->name.empty() ? core::name(known->dtype) : known->name);
}

std::string onnx_obstacle(const OnnxTensor& tensor) {
  const OnnxType* type = find_type(tensor.type);
  if (type == nullptr) return "";
  if (!type->beyond.empty()) return std::string(type->beyond);
  const bool halves = type->dtype == DType::f4_e2m1fn_x2;
  const bool odd = tensor.shape.empty() || tensor.shape.back() % 2 != 0;
  return halves && odd ? "4-bit floats with an odd last dimension" : "";
}

EntryPtr make_onnx_entry(const OnnxTensor& tensor, const SourcePtr& file, const OnnxFiles& files) {
  const OnnxType* type = find_type(tensor.type);
  if (type == nullptr) {
    throw Error(tensor.type == 0 ? ErrorCode::corrupt : ErrorCode::unsupported,
                tensor.type == 0 ? "it has no element type"
                                 : "its element type has the number " + std::to_string(tensor.type) +
                                       ", which no version of ONNX that is known here has");
  }
  if (tensor.segmented) throw Error(ErrorCode::unsupported, "its values are split into segments, which is not read");
  auto entry = std::make_shared<Entry>();
  entry->dtype = type->dtype;
  entry->shape = tensor.shape;
  if (type->dtype == DType::f4_e2m1fn_x2) entry->shape[entry->shape.size() - 1] /= 2;
  std::optional<std::uint64_t> count = core::try_numel(entry->shape.span());
  std::optional<std::uint64_t> bytes = count ? core::byte_size(type->dtype, *count) : std::nullopt;
  if (!bytes) corrupt("it has the impossible shape " + core::to_list(tensor.shape));
  if (type->packed_bits == 0) {
    entry->bytes = stored_values(tensor, *type, file, files, *bytes);
    return entry;
  }
  const unsigned in_byte = 8 / type->packed_bits;
  SourcePtr packed = stored_values(tensor, *type, file, files, *count / in_byte + (*count % in_byte == 0 ? 0 : 1));
  entry->stored_type = std::string(type->name);
  entry->bytes = std::make_shared<SpreadBits>(std::move(packed), *count, type->packed_bits, type->dtype == DType::i8);
  return entry;
}

}  // namespace ckpt::detail
