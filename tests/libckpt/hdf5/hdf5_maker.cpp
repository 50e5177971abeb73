#include "tests/libckpt/hdf5/hdf5_maker.h"

#include <cstring>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace test {
namespace {

hid_t good(hid_t id) {
  if (id < 0) throw std::runtime_error("libhdf5 fails in a test");
  return id;
}

std::vector<float> counted(const std::vector<hsize_t>& dims, float first) {
  hsize_t count = std::accumulate(dims.begin(), dims.end(), hsize_t{1}, std::multiplies<>());
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

hid_t space_of(const std::vector<hsize_t>& dims) {
  if (dims.empty()) return good(H5Screate(H5S_SCALAR));
  return good(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
}

void add_filter(hid_t list, H5Z_filter_t filter) {
  if (filter == H5Z_FILTER_DEFLATE) {
    H5Pset_deflate(list, 4);
  } else if (filter == H5Z_FILTER_SHUFFLE) {
    H5Pset_shuffle(list);
  } else if (filter == H5Z_FILTER_FLETCHER32) {
    H5Pset_fletcher32(list);
  } else {
    H5Pset_filter(list, filter, H5Z_FLAG_OPTIONAL, 0, nullptr);
  }
}

hid_t chunk_list(const std::vector<hsize_t>& chunk, const std::vector<H5Z_filter_t>& filters) {
  hid_t list = good(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(list, static_cast<int>(chunk.size()), chunk.data());
  for (H5Z_filter_t filter : filters) add_filter(list, filter);
  return list;
}

}  // namespace

Hdf5Maker::Hdf5Maker(const std::filesystem::path& path, Mode mode) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  file_ = mode == Mode::create ? good(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT))
                               : good(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  links_ = good(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links_, 1);
  H5Pset_char_encoding(links_, H5T_CSET_UTF8);
}

Hdf5Maker::~Hdf5Maker() {
  close();
}

void Hdf5Maker::close() {
  if (file_ < 0) return;
  H5Pclose(links_);
  H5Fclose(file_);
  file_ = -1;
}

void Hdf5Maker::floats(const std::string& path, const std::vector<hsize_t>& dims, float first) {
  hid_t space = space_of(dims);
  hid_t set = good(H5Dcreate2(file_, path.c_str(), H5T_IEEE_F32LE, space, links_, H5P_DEFAULT, H5P_DEFAULT));
  std::vector<float> values = counted(dims, first);
  good(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  H5Dclose(set);
  H5Sclose(space);
}

void Hdf5Maker::chunked(const std::string& path, const std::vector<hsize_t>& dims, const std::vector<hsize_t>& chunk,
                        const std::vector<H5Z_filter_t>& filters) {
  hid_t list = chunk_list(chunk, filters);
  empty(path, dims, list);
  H5Pclose(list);
  overwrite(path, 0);
}

void Hdf5Maker::empty(const std::string& path, const std::vector<hsize_t>& dims, hid_t creation_list) {
  hid_t space = space_of(dims);
  H5Dclose(good(H5Dcreate2(file_, path.c_str(), H5T_IEEE_F32LE, space, links_, creation_list, H5P_DEFAULT)));
  H5Sclose(space);
}

void Hdf5Maker::raw_chunk(const std::string& path, const std::vector<hsize_t>& dims,
                          const std::vector<H5Z_filter_t>& filters, const std::vector<unsigned char>& stored) {
  hid_t list = chunk_list(dims, filters);
  empty(path, dims, list);
  H5Pclose(list);
  hid_t set = good(H5Dopen2(file_, path.c_str(), H5P_DEFAULT));
  std::vector<hsize_t> corner(dims.size(), 0);
  good(H5Dwrite_chunk(set, H5P_DEFAULT, 0, corner.data(), stored.size(), stored.data()));
  H5Dclose(set);
}

void Hdf5Maker::typed(const std::string& path, hid_t type) {
  hid_t space = space_of({2});
  H5Dclose(good(H5Dcreate2(file_, path.c_str(), type, space, links_, H5P_DEFAULT, H5P_DEFAULT)));
  H5Sclose(space);
}

void Hdf5Maker::group(const std::string& path) {
  H5Gclose(good(H5Gcreate2(file_, path.c_str(), links_, H5P_DEFAULT, H5P_DEFAULT)));
}

void Hdf5Maker::soft_link(const std::string& path, const std::string& to) {
  good(H5Lcreate_soft(to.c_str(), file_, path.c_str(), links_, H5P_DEFAULT));
}

void Hdf5Maker::external_link(const std::string& path, const std::string& file, const std::string& to) {
  good(H5Lcreate_external(file.c_str(), to.c_str(), file_, path.c_str(), links_, H5P_DEFAULT));
}

void Hdf5Maker::hard_link(const std::string& path, const std::string& to) {
  good(H5Lcreate_hard(file_, to.c_str(), file_, path.c_str(), links_, H5P_DEFAULT));
}

void Hdf5Maker::text(const std::string& object, const std::string& name, const std::string& value) {
  hid_t type = good(H5Tcopy(H5T_C_S1));
  H5Tset_size(type, H5T_VARIABLE);
  hid_t space = good(H5Screate(H5S_SCALAR));
  hid_t at =
      good(H5Acreate_by_name(file_, object.c_str(), name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  const char* pointer = value.c_str();
  good(H5Awrite(at, type, &pointer));
  H5Aclose(at);
  H5Sclose(space);
  H5Tclose(type);
}

void Hdf5Maker::texts(const std::string& object, const std::string& name, const std::vector<std::string>& values) {
  std::size_t width = 1;
  for (const std::string& value : values) width = std::max(width, value.size());
  std::string all(width * values.size(), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&all[i * width], values[i].data(), values[i].size());
  hid_t type = good(H5Tcopy(H5T_C_S1));
  H5Tset_size(type, width);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  hid_t space = space_of({values.size()});
  hid_t at =
      good(H5Acreate_by_name(file_, object.c_str(), name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  good(H5Awrite(at, type, all.data()));
  H5Aclose(at);
  H5Sclose(space);
  H5Tclose(type);
}

void Hdf5Maker::number(const std::string& object, const std::string& name, std::int64_t value) {
  hid_t space = good(H5Screate(H5S_SCALAR));
  hid_t at = good(H5Acreate_by_name(file_, object.c_str(), name.c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT,
                                    H5P_DEFAULT));
  good(H5Awrite(at, H5T_NATIVE_INT64, &value));
  H5Aclose(at);
  H5Sclose(space);
}

void Hdf5Maker::overwrite(const std::string& path, float first) {
  hid_t set = good(H5Dopen2(file_, path.c_str(), H5P_DEFAULT));
  hid_t space = good(H5Dget_space(set));
  std::vector<float> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  std::iota(values.begin(), values.end(), first);
  good(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  H5Sclose(space);
  H5Dclose(set);
}

void Hdf5Maker::move(const std::string& from, const std::string& to) {
  good(H5Lmove(file_, from.c_str(), file_, to.c_str(), links_, H5P_DEFAULT));
}

void Hdf5Maker::remove(const std::string& path) {
  good(H5Ldelete(file_, path.c_str(), H5P_DEFAULT));
}

}  // namespace test
