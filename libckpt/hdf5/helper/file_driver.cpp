#include "libckpt/hdf5/helper/file_driver.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace ckpt::detail {
namespace {

/// What libhdf5 holds of an open file: its own part first.
struct OpenFile {
  H5FD_t base;
  ReadOnlyFile* file;
};

ReadOnlyFile& file_of(const H5FD_t* file) {
  return *reinterpret_cast<const OpenFile*>(file)->file;
}

// libhdf5 is C: nothing may be thrown through these.

H5FD_t* open_file(const char* /*name*/, unsigned /*flags*/, hid_t access, haddr_t /*max_address*/) {
  const void* info = H5Pget_driver_info(access);
  if (info == nullptr) return nullptr;
  auto* file = new (std::nothrow) OpenFile();
  if (file == nullptr) return nullptr;
  file->file = *static_cast<ReadOnlyFile* const*>(info);
  return &file->base;
}

herr_t close_file(H5FD_t* file) {
  delete reinterpret_cast<OpenFile*>(file);
  return 0;
}

herr_t query_file(const H5FD_t* /*file*/, unsigned long* flags) {
  if (flags != nullptr) *flags = H5FD_FEAT_ACCUMULATE_METADATA;
  return 0;
}

haddr_t end_of_addresses(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return file_of(file).end;
}

herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t address) {
  file_of(file).end = address;
  return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return file_of(file).size();
}

herr_t read_file(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t address, size_t size, void* out) {
  return file_of(file).read(type, address, size, out) ? 0 : -1;
}

herr_t refuse_write(H5FD_t* /*file*/, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t /*address*/, size_t /*size*/,
                    const void* /*from*/) {
  return -1;
}

H5FD_class_t driver_class() {
  H5FD_class_t driver{};
  driver.name = "ckpt_read_only";
  driver.maxaddr = INT64_MAX;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(ReadOnlyFile*);
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query_file;
  driver.get_eoa = end_of_addresses;
  driver.set_eoa = set_end_of_addresses;
  driver.get_eof = end_of_file;
  driver.read = read_file;
  driver.write = refuse_write;
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), std::begin(driver.fl_map));
  return driver;
}

herr_t keep_reason(unsigned depth, const H5E_error2_t* error, void* reason) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(reason) = error->desc;
  return 0;
}

}  // namespace

std::string hdf5_reason() {
  std::string reason = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_reason, &reason);
  return reason.substr(0, reason.find(": current p = "));  // places in memory, which say nothing to anybody
}

ReadOnlyFile::ReadOnlyFile(int fd, std::uint64_t begin, std::uint64_t length)
    : fd_(fd), begin_(begin), length_(length) {
  const H5FD_class_t driver = driver_class();
  driver_ = Handle(H5FDregister(&driver), H5FDunregister);
  access_ = Handle(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  ReadOnlyFile* self = this;
  require_hdf5(H5Pset_driver(access_.get(), driver_.get(), &self), "no driver");
  require_hdf5(H5Pset_fclose_degree(access_.get(), H5F_CLOSE_STRONG), "no closing");
  require_hdf5(H5Pset_elink_file_cache_size(access_.get(), 0), "no cache");
  require_hdf5(H5Pset_file_locking(access_.get(), 0, 1), "no locks");
}

bool ReadOnlyFile::read(H5FD_mem_t type, haddr_t address, std::size_t size, void* out) {
  if (address > length_ || size > length_ - address) return false;
  if (capturing_ && type == H5FD_MEM_DRAW) {
    if (!captured_) captured_ = Range{address, size};
    return true;
  }
  auto* to = static_cast<char*>(out);
  std::uint64_t from = begin_ + address;
  while (size > 0) {
    ssize_t n = ::pread(fd_, to, size, static_cast<off_t>(from));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    from += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace ckpt::detail
