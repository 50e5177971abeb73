#include "libckpt/hdf5/helper/dataset.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "libckpt/hdf5/helper/chunks.h"
#include "libckpt/hdf5/helper/types.h"
#include "libckpt/io/packed.h"
#include "libcore/base/checked_math.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kMaxFillValue = 64;
constexpr std::uint64_t kMaxCompact = 65'536;

void put_type(const TypeFacts& facts, core::ByteVector& out) {
  put_text(out, facts.dtype);
  put_text(out, facts.what);
  out.push_back(static_cast<std::byte>(facts.flags));
  put_count(out, facts.width);
}

/// Returns the sizes; none for a dataset without elements or with one.
std::vector<hsize_t> put_space(hid_t dataset, core::ByteVector& out) {
  Handle space(H5Dget_space(dataset), H5Sclose);
  H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  if (kind == H5S_NULL) {
    out.push_back(std::byte{kSpaceNull});
    return {};
  }
  int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0) require_hdf5(-1, "the shape");
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  if (rank > 0) require_hdf5(H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr), "the shape");
  out.push_back(std::byte{kSpaceSimple});
  put_count(out, dims.size());
  for (hsize_t size : dims) put_count(out, size);
  return dims;
}

/// The others are wider in memory or in the file: texts of any length, references, what is made of them.
bool has_fixed_width(hid_t type) {
  H5T_class_t kind = H5Tget_class(type);
  return kind == H5T_INTEGER || kind == H5T_FLOAT || kind == H5T_ENUM || kind == H5T_OPAQUE || kind == H5T_BITFIELD;
}

bool has_elements(hid_t dataset) {
  Handle space(H5Dget_space(dataset), H5Sclose);
  return H5Sget_simple_extent_npoints(space.get()) > 0;
}

void put_fill_value(hid_t list, hid_t type, std::uint64_t width, core::ByteVector& out) {
  core::ByteVector value;
  H5D_fill_value_t status = H5D_FILL_VALUE_UNDEFINED;
  require_hdf5(H5Pfill_value_defined(list, &status), "the fill value");
  if (status == H5D_FILL_VALUE_USER_DEFINED && width <= kMaxFillValue) {
    value.resize(width);
    require_hdf5(H5Pget_fill_value(list, type, value.data()), "the fill value");
  }
  put_bytes(out, value);
}

void put_outside(const std::string& what, core::ByteVector& out) {
  out.push_back(std::byte{kLayoutOutside});
  put_text(out, what);
}

/// Size and shape are written twice, in the type and the space and in the layout; readers trust either.
void require_stored(std::uint64_t stored, const std::vector<hsize_t>& dims, std::uint64_t width) {
  std::optional<std::uint64_t> size = width;
  for (hsize_t side : dims) {
    if (size) size = core::try_mul<std::uint64_t>(*size, side);
  }
  if (size == stored) return;
  throw Failure{kFailureCorrupt, "it holds " + std::to_string(stored) + " bytes where its shape and elements of " +
                                     std::to_string(width) + " bytes need " +
                                     (size ? std::to_string(*size) : "more than 64 bits can count")};
}

void put_compact(hid_t dataset, hid_t type, core::ByteVector& out) {
  hsize_t size = H5Dget_storage_size(dataset);
  if (size > kMaxCompact) throw Failure{kFailureCorrupt, "a compact dataset of " + std::to_string(size) + " bytes"};
  core::ByteVector bytes(kMaxCompact);  // the shape may ask for more than is stored
  Handle space(H5Dget_space(dataset), H5Sclose);
  hssize_t count = H5Sget_simple_extent_npoints(space.get());
  std::size_t width = H5Tget_size(type);
  if (count < 0 || static_cast<std::uint64_t>(count) > kMaxCompact / std::max<std::size_t>(width, 1)) {
    throw Failure{kFailureCorrupt, "a compact dataset whose shape does not fit its bytes"};
  }
  if (count > 0) require_hdf5(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), "compact data");
  bytes.resize(static_cast<std::size_t>(count) * width);
  out.push_back(std::byte{kLayoutCompact});
  put_bytes(out, bytes);
}

void put_contiguous(hid_t dataset, core::ByteVector& out) {
  haddr_t address = H5Dget_offset(dataset);
  if (address == HADDR_UNDEF) {
    out.push_back(std::byte{kLayoutNone});
    return;
  }
  out.push_back(std::byte{kLayoutContiguous});
  put_count(out, address);
  put_count(out, H5Dget_storage_size(dataset));
}

}  // namespace

void put_dataset(hid_t dataset, ReadOnlyFile& file, core::ByteVector& out) {
  // The creation list comes first: asking for the shape of a virtual dataset may open other files already.
  Handle list(H5Dget_create_plist(dataset), H5Pclose);
  H5D_layout_t layout = H5Pget_layout(list.get());
  Handle type(H5Dget_type(dataset), H5Tclose);
  TypeFacts facts = describe_type(type.get());
  put_type(facts, out);
  if (layout == H5D_VIRTUAL) {
    out.push_back(std::byte{kSpaceNull});
    put_bytes(out, {});
    return put_outside("a virtual dataset, made of parts of other files", out);
  }
  std::vector<hsize_t> dims = put_space(dataset, out);
  bool is_number = !facts.dtype.empty();
  put_fill_value(list.get(), type.get(), is_number ? facts.width : UINT64_MAX, out);
  if (H5Pget_external_count(list.get()) != 0) return put_outside("raw data in another file", out);
  bool in_one_piece = layout == H5D_COMPACT || (layout == H5D_CONTIGUOUS && H5Dget_offset(dataset) != HADDR_UNDEF);
  if (in_one_piece && has_fixed_width(type.get()) && has_elements(dataset))
    require_stored(H5Dget_storage_size(dataset), dims, facts.width);
  if (!is_number) {
    out.push_back(std::byte{kLayoutUnread});
  } else if (layout == H5D_COMPACT) {
    put_compact(dataset, type.get(), out);
  } else if (layout == H5D_CONTIGUOUS) {
    put_contiguous(dataset, out);
  } else if (layout == H5D_CHUNKED) {
    put_chunks(dataset, {list.get(), dims, facts.width}, file, out);
  } else {
    throw Failure{kFailureUnsupported, "a dataset with an unknown kind of layout"};
  }
}

}  // namespace ckpt::detail
