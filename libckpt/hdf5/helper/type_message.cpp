#include "libckpt/hdf5/helper/type_message.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/checked_math.h"

namespace ckpt::detail {
namespace {

// HDF5 File Format Specification, IV.A.2.d.
enum TypeKind : std::uint8_t {
  kInteger = 0,
  kFloat = 1,
  kTime = 2,
  kText = 3,
  kBitField = 4,
  kOpaque = 5,
  kCompound = 6,
  kReference = 7,
  kEnum = 8,
  kAnyLength = 9,
  kArray = 10,
};

constexpr unsigned kMaxDepth = 32;
constexpr std::size_t kTypePadding = 8;

std::string count_text(std::uint64_t count, const char* what) {
  return std::to_string(count) + " " + what;
}

[[noreturn]] void fail_type(const std::string& what) {
  throw Failure{kFailureCorrupt, "its type has " + what};
}

class TypeChecker {
 public:
  TypeChecker(ByteCursor& in, const Hdf5Widths& widths) : in_(in), widths_(widths) {}

  TypeClaim check(unsigned depth) {
    if (depth > kMaxDepth) fail_type("more than 32 types one inside the other");
    auto head = in_.take<std::uint8_t>();
    Claim claim{.version = static_cast<std::uint8_t>(head >> 4), .kind = static_cast<std::uint8_t>(head & 15)};
    for (std::uint8_t& bits : claim.bits) bits = in_.take<std::uint8_t>();
    claim.width = in_.take<std::uint32_t>();
    if (claim.width == 0) fail_type("elements of 0 bytes");
    check_kind(claim, depth);
    bool region = claim.kind == kReference && (claim.bits[0] & 15) != 0;
    points_elsewhere_ = points_elsewhere_ || claim.kind == kAnyLength || region;
    return {claim.width, claim.kind, claim.kind == kAnyLength && (claim.bits[0] & 15) == 1, points_elsewhere_};
  }

 private:
  struct Claim {
    std::uint8_t version = 0;
    std::uint8_t kind = 0;
    std::uint8_t bits[3] = {};
    std::uint64_t width = 0;
    std::uint64_t count() const { return bits[0] | bits[1] << 8; }
  };

  void check_kind(const Claim& claim, unsigned depth) {
    switch (claim.kind) {
      case kInteger:
      case kBitField:
        take_precision(claim);
        break;
      case kFloat:
        check_float(claim);
        break;
      case kTime:
        in_.skip(2);
        break;
      case kText:
        break;
      case kOpaque:
        in_.skip(claim.bits[0]);
        break;
      case kCompound:
        check_compound(claim, depth);
        break;
      case kReference:
        check_reference(claim);
        break;
      case kEnum:
        check_enum(claim, depth);
        break;
      case kAnyLength:
        require_width(claim, 4 + widths_.address + 4);
        check(depth + 1);
        break;
      case kArray:
        check_array(claim, depth);
        break;
      default:
        fail_type("the unknown kind " + std::to_string(claim.kind));
    }
  }

  static void require_width(const Claim& claim, std::uint64_t width) {
    if (claim.width != width) {
      fail_type("elements of " + count_text(claim.width, "bytes where their parts take ") + std::to_string(width));
    }
  }

  std::uint64_t take_precision(const Claim& claim) {
    auto offset = in_.take<std::uint16_t>();
    auto precision = in_.take<std::uint16_t>();
    if (precision == 0 || std::uint64_t{offset} + precision > 8 * claim.width) {
      fail_type("elements of " + count_text(claim.width, "bytes that hold numbers of ") +
                count_text(precision, "bits") + (offset > 0 ? " from bit " + std::to_string(offset) : ""));
    }
    return precision;
  }

  void check_float(const Claim& claim) {
    std::uint64_t precision = take_precision(claim);
    std::uint64_t sign = claim.bits[1];
    auto exponent = in_.take<std::uint8_t>();
    std::uint64_t exponent_end = exponent + in_.take<std::uint8_t>();
    auto mantissa = in_.take<std::uint8_t>();
    std::uint64_t mantissa_end = mantissa + in_.take<std::uint8_t>();
    in_.skip(4);
    bool inside = sign < precision && exponent_end <= precision && mantissa_end <= precision;
    bool apart = exponent_end <= mantissa || mantissa_end <= exponent;
    bool sign_apart = (sign < exponent || sign >= exponent_end) && (sign < mantissa || sign >= mantissa_end);
    if (inside && apart && sign_apart && exponent < exponent_end && mantissa < mantissa_end) return;
    fail_type("floats of " + count_text(precision, "bits whose sign, exponent and mantissa do not fit into them"));
  }

  void check_reference(const Claim& claim) const {
    constexpr std::uint8_t kNewer = 4;
    if (claim.version >= kNewer) return;
    bool region = (claim.bits[0] & 15) == 1;
    require_width(claim, region ? widths_.address + 4 : widths_.address);
  }

  void take_name(const Claim& claim) {
    std::uint64_t length = 1;
    while (in_.take<std::uint8_t>() != 0) ++length;
    if (claim.version < 3) in_.skip((kTypePadding - length % kTypePadding) % kTypePadding);
  }

  void check_enum(const Claim& claim, unsigned depth) {
    TypeClaim base = check(depth + 1);
    if (base.kind != kInteger) fail_type("names for what is not a number");
    require_width(claim, base.width);
    for (std::uint64_t i = 0; i < claim.count(); ++i) take_name(claim);
    in_.skip(claim.count() * base.width);
  }

  void check_array(const Claim& claim, unsigned depth) {
    auto rank = in_.take<std::uint8_t>();
    if (rank == 0 || rank > kMaxRank) fail_type("elements that are arrays of " + count_text(rank, "dimensions"));
    bool padded = claim.version < 3;
    if (padded) in_.skip(3);
    std::optional<std::uint64_t> width = 1;
    for (unsigned d = 0; d < rank; ++d) {
      auto side = in_.take<std::uint32_t>();
      width = width ? core::try_mul<std::uint64_t>(*width, side) : width;
    }
    if (padded) in_.skip(4ULL * rank);
    TypeClaim base = check(depth + 1);
    width = width ? core::try_mul<std::uint64_t>(*width, base.width) : width;
    require_width(claim, width.value_or(UINT64_MAX));
  }

  /// Bytes of the elements that stand in a member of a compound; only the first version had lists there.
  std::uint64_t take_old_sides() {
    auto rank = in_.take<std::uint8_t>();
    in_.skip(3 + 4 + 4);
    std::uint64_t count = 1;
    for (unsigned d = 0; d < 4; ++d) {
      auto side = in_.take<std::uint32_t>();
      if (d < rank) count = core::try_mul<std::uint64_t>(count, side).value_or(UINT32_MAX);
      count = std::min<std::uint64_t>(count, UINT32_MAX);
    }
    return count;
  }

  void check_compound(const Claim& claim, unsigned depth) {
    if (claim.count() == 0) fail_type("no members");
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    std::size_t offset_width = (std::bit_width(claim.width) - 1) / 8 + 1;
    for (std::uint64_t i = 0; i < claim.count(); ++i) {
      take_name(claim);
      std::uint64_t begin = take_number(in_, claim.version < 3 ? 4 : offset_width);
      std::uint64_t times = claim.version == 1 ? take_old_sides() : 1;
      std::uint64_t width = check(depth + 1).width * times;
      if (begin > claim.width || width > claim.width - begin) {
        fail_type("elements of " + count_text(claim.width, "bytes and a member of ") +
                  count_text(width, "bytes at byte ") + std::to_string(begin) + " of them");
      }
      places.emplace_back(begin, begin + width);
    }
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (places[i].first < places[i - 1].second) fail_type("members that lie one upon the other");
    }
  }

  ByteCursor& in_;
  const Hdf5Widths& widths_;
  bool points_elsewhere_ = false;
};

}  // namespace

TypeClaim check_type_message(ByteCursor& in, const Hdf5Widths& widths) {
  return TypeChecker(in, widths).check(0);
}

}  // namespace ckpt::detail
