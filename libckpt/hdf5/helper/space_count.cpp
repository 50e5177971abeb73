#include "libckpt/hdf5/helper/space_count.h"

#include "libckpt/hdf5/helper/handle.h"
#include "libcore/base/checked_math.h"

namespace ckpt::detail {

void SpaceCount::add(std::uint64_t bytes) {
  bytes_ = core::try_add<std::uint64_t>(bytes_, bytes).value_or(UINT64_MAX);
}

void SpaceCount::add_file(hid_t file) {
  H5F_info2_t info{};
  require_hdf5(H5Fget_info2(file, &info), "the tables of the file");
  for (std::uint64_t bytes : {info.super.super_size, info.super.super_ext_size, info.free.meta_size, info.sohm.hdr_size,
                              info.sohm.msgs_info.index_size, info.sohm.msgs_info.heap_size}) {
    add(bytes);
  }
}

void SpaceCount::add_object(hid_t object) {
  H5O_info_t info{};
  require_hdf5(H5Oget_info2(object, &info, H5O_INFO_HDR | H5O_INFO_META_SIZE | H5O_INFO_NUM_ATTRS), "an object");
  for (std::uint64_t bytes : {info.hdr.space.total, info.meta_size.obj.index_size, info.meta_size.obj.heap_size,
                              info.meta_size.attr.index_size, info.meta_size.attr.heap_size}) {
    add(bytes);
  }
  attributes_ += info.num_attrs;
}

void SpaceCount::add_values(hid_t dataset, hid_t creation_list) {
  H5D_layout_t layout = H5Pget_layout(creation_list);
  bool here = layout == H5D_CONTIGUOUS || layout == H5D_CHUNKED;
  if (here && H5Pget_external_count(creation_list) == 0) add(H5Dget_storage_size(dataset));
}

}  // namespace ckpt::detail
