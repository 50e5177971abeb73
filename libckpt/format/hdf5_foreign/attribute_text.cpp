#include "libckpt/format/hdf5_foreign/attribute_text.h"

#include "libckpt/io/json.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

std::size_t count_of(const Hdf5Attribute& a) {
  return a.texts.size() + a.integers.size() + a.naturals.size() + a.reals.size();
}

/// One value; texts get quotes.
std::string item_text(const Hdf5Attribute& a, std::size_t i) {
  switch (a.kind) {
    case kAttributeInteger:
      return std::to_string(a.integers[i]);
    case kAttributeUnsigned:
      return std::to_string(a.naturals[i]);
    case kAttributeReal:
      return core::python_float(a.reals[i]);
    case kAttributeBoolean:
      return a.integers[i] != 0 ? "true" : "false";
    default:
      return json_quote(a.texts[i]);
  }
}

}  // namespace

std::string attribute_text(const Hdf5Attribute& attribute) {
  if (!attribute.is_list && count_of(attribute) == 1) {
    return attribute.kind == kAttributeText ? attribute.texts[0] : item_text(attribute, 0);
  }
  std::string list;
  for (std::size_t i = 0; i < count_of(attribute); ++i) list += (i == 0 ? "" : ", ") + item_text(attribute, i);
  return "[" + list + "]";
}

}  // namespace ckpt::detail
