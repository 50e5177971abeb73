// The fixed header of a native file and the numbers of dtypes.

#include <algorithm>
#include <array>
#include <bit>

#include "libckpt/format/native/layout.h"
#include "libckpt/io/byte_cursor.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::size_t kHashedBytes = kHeaderBytes - 16;

/// The position in this list is the number in a file: append only.
constexpr std::array kDTypeCodes = {
    DType::boolean,     DType::u8,          DType::i8,         DType::i16,      DType::i32,       DType::i64,
    DType::u16,         DType::u32,         DType::u64,        DType::f16,      DType::bf16,      DType::f32,
    DType::f64,         DType::c32,         DType::c64,        DType::c128,     DType::f8_e4m3fn, DType::f8_e5m2,
    DType::f8_e4m3fnuz, DType::f8_e5m2fnuz, DType::f8_e8m0fnu, DType::f6_e2m3,  DType::f6_e3m2,   DType::f4_e2m1fn_x2,
    DType::qint8,       DType::quint8,      DType::qint32,     DType::quint4x2, DType::quint2x4,  DType::bits8,
    DType::bits16,      DType::bits1x8,     DType::bits2x4,    DType::bits4x2,
};
static_assert(kDTypeCodes.size() == core::kDTypeCount);

void require_version(const NativeHeader& header) {
  if (header.major <= kNativeMajor) return;
  throw Error(ErrorCode::unsupported, "the file needs version " + std::to_string(header.major) +
                                          " of the native format, and this library reads up to version " +
                                          std::to_string(kNativeMajor) + "; use a newer one");
}

void require_sizes(const NativeHeader& header) {
  bool fits = std::has_single_bit(header.user_block) && header.user_block >= kMinUserBlock &&
              header.user_block <= kMaxUserBlock && header.index_size <= header.user_block - kHeaderBytes;
  if (fits && header.body_size >= kFirstPayload && header.body_size <= INT64_MAX - kMaxUserBlock) return;
  throw Error(ErrorCode::corrupt, "the header states impossible sizes: a user block of " +
                                      std::to_string(header.user_block) + " bytes with an index of " +
                                      std::to_string(header.index_size) + " and " + std::to_string(header.body_size) +
                                      " bytes after it");
}

}  // namespace

std::uint8_t dtype_code(DType dtype) {
  for (std::size_t i = 0; i < kDTypeCodes.size(); ++i) {
    if (kDTypeCodes[i] == dtype) return static_cast<std::uint8_t>(i);
  }
  throw Error(ErrorCode::internal, "a dtype without a number in the native format");
}

std::optional<DType> dtype_of_code(std::uint8_t code) {
  if (code >= kDTypeCodes.size()) return std::nullopt;
  return kDTypeCodes[code];
}

bool header_hash_fits(core::Bytes header) {
  Hash128 hash = {core::load_le<std::uint64_t>(header.data() + kHashedBytes),
                  core::load_le<std::uint64_t>(header.data() + kHashedBytes + 8)};
  return hash == hash128(header.first(kHashedBytes));
}

core::ByteVector encode_header(const NativeHeader& header) {
  core::ByteVector out(kHeaderBytes);
  std::size_t at = 0;
  auto put = [&](auto value) {
    core::store_le(out.data() + at, value);
    at += sizeof value;
  };
  std::copy_n(core::as_bytes(kNativeMagic).begin(), kNativeMagic.size(), out.begin());
  at = kNativeMagic.size();
  put(header.major);
  put(header.minor);
  put(static_cast<std::uint32_t>(kHeaderBytes));
  put(header.user_block);
  put(header.generation);
  put(header.index_size);
  put(header.body_size);
  put(header.index_hash.low);
  put(header.index_hash.high);
  at = kHashedBytes;
  Hash128 hash = hash128(core::Bytes(out).first(kHashedBytes));
  put(hash.low);
  put(hash.high);
  return out;
}

NativeHeader parse_header(core::Bytes head) {
  ByteCursor in(head, "the file");
  if (in.take_text(kNativeMagic.size()) != kNativeMagic) throw Error(ErrorCode::corrupt, "this is not a native file");
  NativeHeader header;
  header.major = in.take<std::uint16_t>();
  header.minor = in.take<std::uint16_t>();
  require_version(header);
  auto header_size = in.take<std::uint32_t>();
  header.user_block = in.take<std::uint64_t>();
  header.generation = in.take<std::uint64_t>();
  header.index_size = in.take<std::uint64_t>();
  header.body_size = in.take<std::uint64_t>();
  header.index_hash.low = in.take<std::uint64_t>();
  header.index_hash.high = in.take<std::uint64_t>();
  in.seek(kHeaderBytes);
  if (!header_hash_fits(head.first(kHeaderBytes)) || header_size != kHeaderBytes) {
    throw Error(ErrorCode::corrupt, "the header is damaged: its checksum does not fit its bytes");
  }
  require_sizes(header);
  return header;
}

}  // namespace ckpt::detail
