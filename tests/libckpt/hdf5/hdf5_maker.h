#pragma once
// Makes HDF5 files with libhdf5 itself, as other programs do, the odd ones included.
// Use: Hdf5Maker maker(path); maker.floats("a/b", {2, 3}); maker.external_link("x", "/etc/passwd", "/y");
// maker.close();

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace test {

class Hdf5Maker {
 public:
  enum class Mode { create, edit };
  explicit Hdf5Maker(const std::filesystem::path& path, Mode mode = Mode::create);
  ~Hdf5Maker();
  Hdf5Maker(const Hdf5Maker&) = delete;
  Hdf5Maker& operator=(const Hdf5Maker&) = delete;
  void close();
  hid_t file() const { return file_; }

  /// 0, 1, 2, ... as float32; groups are made on the way.
  void floats(const std::string& path, const std::vector<hsize_t>& dims, float first = 0);
  /// The same in chunks with the filters of a creation list.
  void chunked(const std::string& path, const std::vector<hsize_t>& dims, const std::vector<hsize_t>& chunk,
               const std::vector<H5Z_filter_t>& filters);
  /// float32 with this creation list and no data.
  void empty(const std::string& path, const std::vector<hsize_t>& dims, hid_t creation_list);
  /// Declares filters without running them: one chunk of `stored` bytes as they are.
  void raw_chunk(const std::string& path, const std::vector<hsize_t>& dims, const std::vector<H5Z_filter_t>& filters,
                 const std::vector<unsigned char>& stored);
  void typed(const std::string& path, hid_t type);
  void group(const std::string& path);
  void soft_link(const std::string& path, const std::string& to);
  void external_link(const std::string& path, const std::string& file, const std::string& to);
  void hard_link(const std::string& path, const std::string& to);
  void text(const std::string& object, const std::string& name, const std::string& value);
  void texts(const std::string& object, const std::string& name, const std::vector<std::string>& values);
  void number(const std::string& object, const std::string& name, std::int64_t value);
  void overwrite(const std::string& path, float first);
  void move(const std::string& from, const std::string& to);
  void remove(const std::string& path);

 private:
  hid_t file_ = -1;
  hid_t links_ = -1;
};

}  // namespace test
