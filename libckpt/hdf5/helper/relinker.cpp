#include "libckpt/hdf5/helper/relinker.h"

#include "libckpt/hdf5/helper/described_image.h"
#include "libckpt/hdf5/helper/memory_file.h"
#include "libckpt/io/packed.h"

namespace ckpt::detail {
namespace {

/// libhdf5 takes texts that end with a zero.
std::string take_path(ByteCursor& in) {
  std::string path = take_string(in);
  if (!path.starts_with('/') || path.find('\0') != std::string::npos) {
    throw Failure{kFailureInternal, "the request contradicts itself: a path"};
  }
  return path;
}

/// Changes links of an open file in the order of the request: new groups, moves, groups that became empty.
class Relinker {
 public:
  explicit Relinker(const MemoryFile& memory)
      : file_(H5Fopen("memory", H5F_ACC_RDWR, memory.access()), H5Fclose),
        links_(H5Pcreate(H5P_LINK_CREATE), H5Pclose),
        groups_(H5Pcreate(H5P_GROUP_CREATE), H5Pclose) {
    require_hdf5(H5Pset_char_encoding(links_.get(), H5T_CSET_UTF8), "a link");
    require_hdf5(H5Pset_obj_track_times(groups_.get(), false), "a group");
  }

  std::uint64_t run(ByteCursor& in) {
    for (std::uint64_t left = take_length(in); left > 0; --left) create(take_path(in));
    std::uint64_t moves = take_length(in);
    for (std::uint64_t left = moves; left > 0; --left) {
      std::string from = take_path(in);
      move(from, take_path(in));
    }
    for (std::uint64_t left = take_length(in); left > 0; --left) remove_empty(take_path(in));
    if (!in.at_end()) throw Failure{kFailureInternal, "the request contradicts itself: bytes are left after its end"};
    return moves;
  }

  /// Closes everything, so that the library writes the rest.
  void finish() {
    require_hdf5(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "the file");
    file_ = Handle();
  }

 private:
  void create(const std::string& path) {
    Handle made(H5Gcreate2(file_.get(), path.c_str(), links_.get(), groups_.get(), H5P_DEFAULT), H5Gclose, "a group");
  }

  void move(const std::string& from, const std::string& to) {
    require_hdf5(H5Lmove(file_.get(), from.c_str(), file_.get(), to.c_str(), links_.get(), H5P_DEFAULT), "a link");
  }

  void remove_empty(const std::string& path) {
    H5G_info_t info{};
    require_hdf5(H5Gget_info_by_name(file_.get(), path.c_str(), &info, H5P_DEFAULT), "a group");
    if (info.nlinks != 0) throw Failure{kFailureCorrupt, "a group that should be empty is not"};
    require_hdf5(H5Ldelete(file_.get(), path.c_str(), H5P_DEFAULT), "a link");
  }

  Handle file_;
  Handle links_;
  Handle groups_;
};

}  // namespace

void relink(core::Bytes request, Reply& reply) {
  ByteCursor in(request, "the request");
  std::uint64_t user_block = take_count(in);
  std::uint64_t metadata_begin = take_count(in);
  core::Bytes superblock = take_run(in);
  core::Bytes metadata = take_run(in);
  bool placed = user_block <= INT64_MAX / 2 && metadata_begin <= INT64_MAX / 2 && metadata_begin >= kMaxSuperblock;
  if (!placed || superblock.size() > kMaxSuperblock) {
    throw Failure{kFailureInternal, "the request contradicts itself: the place of the metadata"};
  }
  MemoryFile memory(user_block, metadata_begin);
  memory.fill(superblock, metadata);
  Relinker relinker(memory);
  std::uint64_t moves = relinker.run(in);
  relinker.finish();
  send_image(memory, moves, reply);
}

}  // namespace ckpt::detail
