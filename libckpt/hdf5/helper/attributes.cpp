#include "libckpt/hdf5/helper/attributes.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/hdf5/helper/handle.h"
#include "libckpt/hdf5/helper/types.h"
#include "libckpt/io/packed.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kMaxElements = 1 << 20;
constexpr std::size_t kMaxAttributes = 65'536;

herr_t keep_name(hid_t /*object*/, const char* name, const H5A_info_t* /*info*/, void* names) {
  auto& list = *static_cast<std::vector<std::string>*>(names);
  try {
    if (list.size() == kMaxAttributes) return 1;
    list.emplace_back(name);
    return 0;
  } catch (...) {
    return -1;
  }
}

struct Shape {
  bool is_list = false;
  std::uint64_t count = 0;
};

Shape shape_of(hid_t attribute) {
  Handle space(H5Aget_space(attribute), H5Sclose);
  H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  if (kind == H5S_NULL) return {true, 0};
  hssize_t count = H5Sget_simple_extent_npoints(space.get());
  return {kind != H5S_SCALAR, count < 0 ? UINT64_MAX : static_cast<std::uint64_t>(count)};
}

void put_head(core::ByteVector& out, AttributeKind kind, const Shape& shape) {
  out.push_back(static_cast<std::byte>(kind));
  out.push_back(static_cast<std::byte>(shape.is_list));
  put_count(out, shape.count);
}

void put_other(core::ByteVector& out, const std::string& what) {
  put_head(out, kAttributeOther, {false, 1});
  put_text(out, what);
}

/// A text of fixed length as its padding says it.
std::string_view trimmed(std::string_view text, H5T_str_t padding) {
  if (padding == H5T_STR_NULLTERM) return text.substr(0, text.find('\0'));
  char fill = padding == H5T_STR_SPACEPAD ? ' ' : '\0';
  std::size_t last = text.find_last_not_of(fill);
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

void put_fixed_texts(core::ByteVector& out, hid_t attribute, hid_t type, const Shape& shape) {
  std::size_t width = H5Tget_size(type);
  H5T_str_t padding = H5Tget_strpad(type);
  std::string all(width * shape.count, '\0');
  if (!all.empty()) require_hdf5(H5Aread(attribute, type, all.data()), "an attribute");
  put_head(out, kAttributeText, shape);
  for (std::uint64_t i = 0; i < shape.count; ++i) {
    put_text(out, trimmed(std::string_view(all).substr(i * width, width), padding));
  }
}

void put_long_texts(core::ByteVector& out, hid_t attribute, hid_t type, const Shape& shape) {
  std::vector<char*> texts(shape.count, nullptr);
  Handle space(H5Aget_space(attribute), H5Sclose);
  if (!texts.empty()) require_hdf5(H5Aread(attribute, type, texts.data()), "an attribute");
  put_head(out, kAttributeText, shape);
  for (const char* text : texts) put_text(out, text == nullptr ? std::string_view() : std::string_view(text));
  if (!texts.empty()) H5Dvlen_reclaim(type, space.get(), H5P_DEFAULT, texts.data());
}

template <class Number>
void put_numbers(core::ByteVector& out, hid_t attribute, hid_t memory_type, AttributeKind kind, const Shape& shape) {
  std::vector<Number> numbers(shape.count);
  if (!numbers.empty()) require_hdf5(H5Aread(attribute, memory_type, numbers.data()), "an attribute");
  put_head(out, kind, shape);
  for (Number number : numbers) core::append_le<Number>(out, number);
}

void put_value(core::ByteVector& out, hid_t attribute, hid_t type, const TypeFacts& facts, const Shape& shape) {
  switch (H5Tget_class(type)) {
    case H5T_STRING:
      if (H5Tis_variable_str(type) > 0) return put_long_texts(out, attribute, type, shape);
      return put_fixed_texts(out, attribute, type, shape);
    case H5T_INTEGER:
      if (facts.dtype.starts_with("uint")) {
        return put_numbers<std::uint64_t>(out, attribute, H5T_NATIVE_UINT64, kAttributeUnsigned, shape);
      }
      if (facts.dtype.starts_with("int")) {
        return put_numbers<std::int64_t>(out, attribute, H5T_NATIVE_INT64, kAttributeInteger, shape);
      }
      break;
    case H5T_FLOAT:
      return put_numbers<double>(out, attribute, H5T_NATIVE_DOUBLE, kAttributeReal, shape);
    case H5T_ENUM:
      if (facts.dtype == "bool") return put_numbers<std::uint8_t>(out, attribute, type, kAttributeBoolean, shape);
      break;
    default:
      break;
  }
  put_other(out, facts.what);
}

}  // namespace

void AttributeWriter::put_all(hid_t object, hid_t list, core::ByteVector& out) {
  unsigned flags = 0;
  require_hdf5(H5Pget_attr_creation_order(list, &flags), "the order of attributes");
  bool in_order = (flags & H5P_CRT_ORDER_TRACKED) != 0 && (flags & H5P_CRT_ORDER_INDEXED) != 0;
  std::vector<std::string> names;
  hsize_t at = 0;
  require_hdf5(H5Aiterate2(object, in_order ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME, H5_ITER_INC, &at, keep_name, &names),
               "the attributes");
  put_count(out, names.size());
  for (const std::string& name : names) {
    put_text(out, name);
    put(object, name.c_str(), out);
  }
}

void AttributeWriter::put(hid_t object, const char* name, core::ByteVector& out) {
  Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, "an attribute");
  Handle type(H5Aget_type(attribute.get()), H5Tclose);
  TypeFacts facts = describe_type(type.get());
  Shape shape = shape_of(attribute.get());
  std::uint64_t width = std::max<std::uint64_t>(facts.width, 8);
  if (shape.count > kMaxElements || width > budget_ || shape.count * width > budget_) {
    return put_other(out, "an attribute that is too large");
  }
  budget_ -= shape.count * width;
  std::size_t before = out.size();
  put_value(out, attribute.get(), type.get(), facts, shape);
  std::uint64_t added = out.size() - before;
  if (added > budget_) throw Failure{kFailureRefused, "the attributes hold more than 256 MiB"};
  budget_ -= added;
}

}  // namespace ckpt::detail
