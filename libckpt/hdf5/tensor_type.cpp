#include "libckpt/hdf5/tensor_type.h"

namespace ckpt {
namespace {

using core::DType;

core::Shape shape_of(const Hdf5Dataset& dataset) {
  core::Shape shape;
  for (std::uint64_t side : dataset.dims) shape.push_back(static_cast<std::int64_t>(side));
  return shape;
}

/// Bits of a type that HDF5 lacks, stored as integers, with the type in an attribute.
void apply_named_dtype(const Hdf5Dataset& dataset, DType named, Hdf5TensorType& type) {
  if (static_cast<std::uint64_t>(core::bit_width(named)) == 8 * dataset.width) {
    type.dtype = named;
    return;
  }
  const Hdf5Attribute* shape = find_attribute(dataset.attributes, "ckpt_shape");
  if (shape == nullptr || shape->kind != detail::kAttributeInteger) return;
  core::Shape logical;
  for (std::int64_t side : shape->integers) {
    if (side < 0) return;
    logical.push_back(side);
  }
  std::optional<std::uint64_t> count = core::try_numel(logical.span());
  if (!count || core::byte_size(named, *count) != dataset.size) return;
  type = {named, std::move(logical)};
}

}  // namespace

Hdf5TensorType hdf5_tensor_type(const Hdf5Dataset& dataset) {
  Hdf5TensorType type{dataset.has_space ? dataset.dtype : std::nullopt, shape_of(dataset)};
  std::optional<std::string> keras = text_of(dataset.attributes, "dtype");
  if (dataset.opaque16 && keras == "bfloat16") type.dtype = DType::bf16;
  std::optional<std::string> name = text_of(dataset.attributes, "ckpt_dtype");
  std::optional<DType> named = name ? core::try_parse_dtype(*name) : std::nullopt;
  if (named && type.dtype && core::is_integer(*type.dtype)) apply_named_dtype(dataset, *named, type);
  return type;
}

std::optional<std::string> text_of(const std::vector<Hdf5Attribute>& attributes, std::string_view name) {
  const Hdf5Attribute* found = find_attribute(attributes, name);
  if (found == nullptr || found->kind != detail::kAttributeText || found->texts.size() != 1) return std::nullopt;
  return found->texts[0];
}

}  // namespace ckpt
