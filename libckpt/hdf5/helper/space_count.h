#pragma once
// How many bytes of a file its objects take, metadata included, as h5stat counts them. What is left belongs to nothing:
// HDF5 leaves it behind when objects are deleted. Thread safety: one thread.
// Use: SpaceCount used; used.add_file(file); used.add_object(dataset); used.add_values(dataset, creation_list);

#include <hdf5.h>

#include <cstdint>

namespace ckpt::detail {

class SpaceCount {
 public:
  /// Superblock and tables of the whole file.
  void add_file(hid_t file);
  /// Header, index of links and attributes.
  void add_object(hid_t object);
  /// What a dataset stores outside its header, in this file.
  void add_values(hid_t dataset, hid_t creation_list);
  void add(std::uint64_t bytes);

  std::uint64_t bytes() const { return bytes_; }
  /// Attributes of the objects that were added.
  std::uint64_t attributes() const { return attributes_; }

 private:
  std::uint64_t bytes_ = 0;
  std::uint64_t attributes_ = 0;
};

}  // namespace ckpt::detail
