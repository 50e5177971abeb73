#include "libckpt/hdf5/helper/types.h"

#include "libckpt/hdf5/helper/handle.h"

namespace ckpt::detail {
namespace {

std::string bits(std::uint64_t width) {
  return std::to_string(width * 8);
}

/// All bits of the type hold the value.
bool is_full(hid_t type, std::uint64_t width) {
  return H5Tget_precision(type) == width * 8 && H5Tget_offset(type) == 0;
}

/// A number must fit into the bytes that an element takes: the size says how far apart elements lie.
void require_room(hid_t type, std::uint64_t width) {
  std::size_t precision = H5Tget_precision(type);
  int offset = H5Tget_offset(type);
  if (precision > 0 && offset >= 0 && precision + static_cast<std::size_t>(offset) <= width * 8) return;
  throw Failure{kFailureCorrupt, "its type has elements of " + std::to_string(width) + " bytes that hold numbers of " +
                                     std::to_string(precision) + " bits"};
}

/// Sets the byte order; false for orders of other times.
bool take_order(hid_t type, TypeFacts& facts) {
  H5T_order_t order = H5Tget_order(type);
  if (order == H5T_ORDER_BE && facts.width > 1) facts.flags |= kTypeBigEndian;
  return order == H5T_ORDER_LE || order == H5T_ORDER_BE || facts.width == 1;
}

void describe_integer(hid_t type, TypeFacts& facts) {
  require_room(type, facts.width);
  bool is_signed = H5Tget_sign(type) != H5T_SGN_NONE;
  facts.what = (is_signed ? "int" : "uint") + bits(facts.width);
  bool known = facts.width == 1 || facts.width == 2 || facts.width == 4 || facts.width == 8;
  if (known && is_full(type, facts.width) && take_order(type, facts)) facts.dtype = facts.what;
}

struct FloatGeometry {
  const char* dtype;
  std::uint64_t width;
  std::size_t exponent_at, exponent_bits, mantissa_bits, bias;
};

constexpr FloatGeometry kFloats[] = {
    {"float16", 2, 10, 5, 10, 15},    {"bfloat16", 2, 7, 8, 7, 127},   {"float32", 4, 23, 8, 23, 127},
    {"float64", 8, 52, 11, 52, 1023}, {"float8_e5m2", 1, 2, 5, 2, 15},
};

void describe_float(hid_t type, TypeFacts& facts) {
  require_room(type, facts.width);
  facts.what = "a float of " + bits(facts.width) + " bits with an unknown layout";
  std::size_t sign_at = 0;
  std::size_t exponent_at = 0;
  std::size_t exponent_bits = 0;
  std::size_t mantissa_at = 0;
  std::size_t mantissa_bits = 0;
  if (H5Tget_fields(type, &sign_at, &exponent_at, &exponent_bits, &mantissa_at, &mantissa_bits) < 0) return;
  if (!is_full(type, facts.width) || sign_at != facts.width * 8 - 1 || mantissa_at != 0) return;
  for (const FloatGeometry& known : kFloats) {
    if (known.width != facts.width || known.exponent_at != exponent_at || known.exponent_bits != exponent_bits)
      continue;
    if (known.mantissa_bits != mantissa_bits || known.bias != H5Tget_ebias(type) || !take_order(type, facts)) continue;
    facts.dtype = facts.what = known.dtype;
  }
}

bool has_member(hid_t type, unsigned index, const char* name, signed char value) {
  char* found = H5Tget_member_name(type, index);
  bool same = found != nullptr && std::string(found) == name;
  H5free_memory(found);
  signed char number = -1;
  return same && H5Tget_member_value(type, index, &number) >= 0 && number == value;
}

/// Booleans as h5py writes them, and other named integers.
void describe_enum(hid_t type, TypeFacts& facts) {
  Handle base(H5Tget_super(type), H5Tclose);
  int members = H5Tget_nmembers(type);
  describe_integer(base.get(), facts);
  if (facts.dtype == "int8" && members == 2 && has_member(type, 0, "FALSE", 0) && has_member(type, 1, "TRUE", 1)) {
    facts.dtype = facts.what = "bool";
    return;
  }
  facts.what = "an enumeration of " + std::to_string(members) + " names over " + facts.what;
  facts.flags |= kTypeEnum;
}

bool is_member(hid_t type, unsigned index, const char* name, std::size_t offset) {
  char* found = H5Tget_member_name(type, index);
  bool same = found != nullptr && std::string(found) == name;
  H5free_memory(found);
  return same && H5Tget_member_offset(type, index) == offset;
}

/// A complex number is a pair {r, i} of equal floats.
void describe_compound(hid_t type, TypeFacts& facts) {
  int members = H5Tget_nmembers(type);
  facts.what = "a compound of " + std::to_string(members) + " members";
  if (members != 2 || !is_member(type, 0, "r", 0) || !is_member(type, 1, "i", facts.width / 2)) return;
  Handle re(H5Tget_member_type(type, 0), H5Tclose);
  Handle im(H5Tget_member_type(type, 1), H5Tclose);
  TypeFacts part;
  part.width = H5Tget_size(re.get());
  if (H5Tget_class(re.get()) != H5T_FLOAT || H5Tequal(re.get(), im.get()) <= 0 || 2 * part.width != facts.width) return;
  describe_float(re.get(), part);
  if (part.dtype != "float16" && part.dtype != "float32" && part.dtype != "float64") return;
  facts.dtype = facts.what = "complex" + bits(facts.width);
  facts.flags = part.flags;
}

void describe_text(hid_t type, TypeFacts& facts) {
  bool any_length = H5Tis_variable_str(type) > 0;
  facts.what = any_length ? "text of any length" : "text of " + std::to_string(facts.width) + " bytes";
}

}  // namespace

TypeFacts describe_type(hid_t type) {
  TypeFacts facts;
  facts.width = H5Tget_size(type);
  if (facts.width == 0) throw Failure{kFailureCorrupt, "its type has elements of 0 bytes"};
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      describe_integer(type, facts);
      break;
    case H5T_FLOAT:
      describe_float(type, facts);
      break;
    case H5T_ENUM:
      describe_enum(type, facts);
      break;
    case H5T_COMPOUND:
      describe_compound(type, facts);
      break;
    case H5T_STRING:
      describe_text(type, facts);
      break;
    case H5T_OPAQUE:
      facts.what = "opaque elements of " + std::to_string(facts.width) + " bytes";
      if (facts.width == 2) facts.dtype = "opaque16";
      break;
    case H5T_BITFIELD:
      facts.what = "a bit field";
      break;
    case H5T_REFERENCE:
      facts.what = "references to other objects";
      break;
    case H5T_VLEN:
      facts.what = "lists of any length";
      break;
    case H5T_ARRAY:
      facts.what = "elements that are arrays";
      break;
    default:
      facts.what = "elements of an unknown type";
  }
  return facts;
}

}  // namespace ckpt::detail
