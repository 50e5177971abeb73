#include "libckpt/hdf5/helper/memory_file.h"

#include <algorithm>
#include <new>
#include <utility>

#include "libckpt/hdf5/wire.h"

namespace ckpt::detail {
namespace {

/// What libhdf5 holds of an open file: its own part first.
struct OpenMemory {
  H5FD_t base;
  MemoryFile* memory;
};

MemoryFile& memory_of(const H5FD_t* file) {
  return *reinterpret_cast<const OpenMemory*>(file)->memory;
}

// The functions of the driver. libhdf5 is C: nothing may be thrown through it.

H5FD_t* open_memory(const char* /*name*/, unsigned /*flags*/, hid_t access, haddr_t /*max_address*/) {
  const void* info = H5Pget_driver_info(access);
  if (info == nullptr) return nullptr;
  auto* file = new (std::nothrow) OpenMemory();
  if (file == nullptr) return nullptr;
  file->memory = *static_cast<MemoryFile* const*>(info);
  return &file->base;
}

herr_t close_memory(H5FD_t* file) {
  delete reinterpret_cast<OpenMemory*>(file);
  return 0;
}

herr_t query_memory(const H5FD_t* /*file*/, unsigned long* flags) {
  // Without aggregation every allocation is asked for by itself, so that payloads and metadata stay apart.
  if (flags != nullptr) *flags = H5FD_FEAT_ACCUMULATE_METADATA;
  return 0;
}

haddr_t allocate_memory(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, hsize_t size) {
  return memory_of(file).allocate(type, size);
}

haddr_t end_of_allocation(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return memory_of(file).end();
}

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t address) {
  memory_of(file).set_end(address);
  return 0;
}

herr_t read_memory(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t address, size_t size, void* out) {
  return memory_of(file).read(address, {static_cast<std::byte*>(out), size}) ? 0 : -1;
}

herr_t write_memory(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t address, size_t size, const void* from) {
  return memory_of(file).write(type, address, {static_cast<const std::byte*>(from), size}) ? 0 : -1;
}

H5FD_class_t memory_driver() {
  H5FD_class_t driver{};
  driver.name = "ckpt_memory";
  driver.maxaddr = INT64_MAX;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(MemoryFile*);
  driver.open = open_memory;
  driver.close = close_memory;
  driver.query = query_memory;
  driver.alloc = allocate_memory;
  driver.get_eoa = end_of_allocation;
  driver.set_eoa = set_end_of_allocation;
  driver.get_eof = end_of_allocation;
  driver.read = read_memory;
  driver.write = write_memory;
  // Freed metadata may be used again for metadata, never for payloads.
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), std::begin(driver.fl_map));
  return driver;
}

}  // namespace

MemoryFile::MemoryFile(std::uint64_t user_block, std::uint64_t metadata_begin)
    : user_block_(user_block), begin_(metadata_begin), end_(metadata_begin) {
  const H5FD_class_t driver = memory_driver();
  driver_ = Handle(H5FDregister(&driver), H5FDunregister);
  access_ = Handle(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  MemoryFile* self = this;
  require_hdf5(H5Pset_driver(access_.get(), driver_.get(), &self), "no driver");
}

void MemoryFile::fill(core::Bytes superblock, core::Bytes metadata) {
  begun_ = true;
  end_ = begin_ + metadata.size();
  superblock_.assign(superblock.begin(), superblock.end());
  metadata_.assign(metadata.begin(), metadata.end());
}

haddr_t MemoryFile::allocate(H5FD_mem_t type, std::uint64_t size) {
  begun_ = true;
  if (type == H5FD_MEM_SUPER) return user_block_;
  // What is no tensor is metadata, also where the library calls it raw data: links and attributes of more than 4 KB.
  if (type == H5FD_MEM_DRAW && expected_ && expected_->size == size) {
    std::uint64_t offset = expected_->offset;
    expected_.reset();
    return user_block_ + offset;
  }
  std::uint64_t offset = end_;
  end_ += size;
  return user_block_ + offset;
}

core::ByteVector MemoryFile::take_metadata() {
  metadata_.resize(end_ - begin_);  // what was allocated and never written is zero
  return std::move(metadata_);
}

void MemoryFile::set_end(haddr_t address) {
  if (!begun_) {
    early_end_ = address;  // the end of the user block, where the superblock goes
  } else if (address >= user_block_ + begin_) {
    end_ = address - user_block_;
  }
}

bool MemoryFile::write(H5FD_mem_t type, haddr_t address, core::Bytes bytes) {
  if (address < user_block_) return false;
  std::uint64_t at = address - user_block_;
  if (type == H5FD_MEM_DRAW && at < begin_) return true;  // tensor bytes: written already, or about to be
  bool is_metadata = at >= begin_;
  core::ByteVector& block = is_metadata ? metadata_ : superblock_;
  if (is_metadata) at -= begin_;
  std::uint64_t limit = is_metadata ? end_ - begin_ : kMaxSuperblock;
  if (at > limit || bytes.size() > limit - at) return false;
  try {
    if (block.size() < at + bytes.size()) block.resize(at + bytes.size());
  } catch (const std::bad_alloc&) {
    return false;
  }
  std::copy(bytes.begin(), bytes.end(), block.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

bool MemoryFile::read(haddr_t address, core::MutableBytes out) const {
  if (address < user_block_) {  // where the library looks for the superblock of a file that is there already
    std::fill(out.begin(), out.end(), std::byte{0});
    return true;
  }
  std::uint64_t at = address - user_block_;
  const core::ByteVector& block = at >= begin_ ? metadata_ : superblock_;
  if (at >= begin_) at -= begin_;
  // Allocated and never written reads as zeros.
  std::uint64_t there = at < block.size() ? std::min<std::uint64_t>(out.size(), block.size() - at) : 0;
  std::copy_n(block.begin() + static_cast<std::ptrdiff_t>(there == 0 ? 0 : at), there, out.begin());
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(there), out.end(), std::byte{0});
  return true;
}

}  // namespace ckpt::detail
