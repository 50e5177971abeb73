#include "libckpt/hdf5/helper/describer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "libckpt/hdf5/helper/described_image.h"
#include "libckpt/hdf5/helper/description.h"
#include "libckpt/hdf5/helper/memory_file.h"
#include "libckpt/hdf5/helper/tensor_types.h"
#include "libckpt/io/packed.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;

constexpr H5Z_filter_t kZstdFilter = 32015;
constexpr unsigned kUsualName = 8;
constexpr unsigned kByCreation = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
constexpr const char* kFile = "the file";
constexpr const char* kDataset = "the dataset";
constexpr const char* kAttribute = "an attribute";

Handle group_list(const Description& wanted) {
  Handle list(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  require_hdf5(H5Pset_obj_track_times(list.get(), false), kFile);
  require_hdf5(H5Pset_est_link_info(list.get(), 1, kUsualName), kFile);  // else room for four links is kept
  if (wanted.in_order()) require_hdf5(H5Pset_link_creation_order(list.get(), kByCreation), kFile);
  return list;
}

/// Space is allocated when a dataset is made and never filled, so that no tensor byte passes through the library.
Handle raw_list() {
  Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  require_hdf5(H5Pset_obj_track_times(list.get(), false), kFile);
  require_hdf5(H5Pset_layout(list.get(), H5D_CONTIGUOUS), kFile);
  require_hdf5(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), kFile);
  require_hdf5(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), kFile);
  return list;
}

/// Else room for attributes is kept, twice as much as most datasets take. Who adds some later finds room elsewhere.
Handle without_room(const Handle& list) {
  Handle tight(H5Pcopy(list.get()), H5Pclose);
  require_hdf5(H5Pset_dset_no_attrs_hint(tight.get(), true), kFile);
  return tight;
}

Handle chunked_list(const DescribedDataset& wanted) {
  Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  require_hdf5(H5Pset_obj_track_times(list.get(), false), kDataset);
  require_hdf5(H5Pset_chunk(list.get(), static_cast<int>(wanted.chunk.size()), wanted.chunk.data()), kDataset);
  require_hdf5(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_INCR), kDataset);
  require_hdf5(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), kDataset);
  require_hdf5(H5Pset_dset_no_attrs_hint(list.get(), wanted.attributes.empty()), kDataset);
  if (wanted.shuffled) require_hdf5(H5Pset_shuffle(list.get()), kDataset);
  if (wanted.filter == kDescribedGzip) {
    require_hdf5(H5Pset_deflate(list.get(), wanted.level), kDataset);
    return list;
  }
  // Marked optional: the library then does not look for a plugin when it writes. Readers need it all the same.
  H5Z_filter_t filter = kZstdFilter;
  if (wanted.filter == kDescribedFast) filter = static_cast<H5Z_filter_t>(kFastFilter);
  if (wanted.filter == kDescribedDelta) filter = static_cast<H5Z_filter_t>(kDeltaFilter);
  if (wanted.filter == kDescribedTrimmed) filter = static_cast<H5Z_filter_t>(kTrimmedFilter);
  require_hdf5(H5Pset_filter(list.get(), filter, H5Z_FLAG_OPTIONAL, 1, &wanted.level), kDataset);
  return list;
}

Handle space_of(const std::vector<hsize_t>& dims) {
  if (dims.empty()) return {H5Screate(H5S_SCALAR), H5Sclose, "the shape"};
  return {H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose, "the shape"};
}

/// libhdf5 puts numbers in the place of "%b" in the names of pieces.
std::string plain_source_name(const std::string& name) {
  std::string out;
  for (char c : name) out += c == '%' ? std::string("%%") : std::string(1, c);
  return out;
}

void add_piece(const Handle& list, const DescribedDataset& wanted, const DescribedPiece& piece) {
  Handle whole = space_of(wanted.dims);
  Handle source = space_of(piece.sizes);
  if (!wanted.dims.empty()) {
    require_hdf5(
        H5Sselect_hyperslab(whole.get(), H5S_SELECT_SET, piece.offsets.data(), nullptr, piece.sizes.data(), nullptr),
        kDataset);
  }
  std::string file = plain_source_name(piece.file);
  std::string dataset = plain_source_name(piece.dataset);
  require_hdf5(H5Pset_virtual(list.get(), whole.get(), file.c_str(), dataset.c_str(), source.get()), kDataset);
}

/// What the library shows for a piece whose file is not there: all bits set, which is NaN in every floating-point type
/// but those of 8 bits without infinity whose NaN is 0x80. Whole numbers have no such value, and are zero.
Handle virtual_list(const DescribedDataset& wanted, hid_t type) {
  Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  require_hdf5(H5Pset_obj_track_times(list.get(), false), kDataset);
  for (const DescribedPiece& piece : wanted.pieces) add_piece(list, wanted, piece);
  if (core::is_floating(wanted.dtype) || core::is_complex(wanted.dtype)) {
    const std::vector<std::uint8_t> ones(H5Tget_size(type), 0xFF);
    require_hdf5(H5Pset_fill_value(list.get(), type, ones.data()), kDataset);
  }
  return list;
}

Handle utf8_links() {
  Handle list(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  require_hdf5(H5Pset_char_encoding(list.get(), H5T_CSET_UTF8), kFile);
  return list;
}

Handle create_file(const MemoryFile& memory, const Description& wanted) {
  Handle create(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  require_hdf5(H5Pset_userblock(create.get(), wanted.user_block()), kFile);
  require_hdf5(H5Pset_obj_track_times(create.get(), false), kFile);
  if (wanted.in_order()) {
    require_hdf5(H5Pset_link_creation_order(create.get(), kByCreation), kFile);
    require_hdf5(H5Pset_attr_creation_order(create.get(), kByCreation), kFile);
  }
  Handle file(H5Fcreate("memory", H5F_ACC_TRUNC, create.get(), memory.access()), H5Fclose, kFile);
  // Objects of HDF5 1.8. Of the older kind libhdf5 makes every group with a tree and a heap, keeps links in another way
  // with the first one whose name is UTF-8, and leaves the two behind: 664 bytes a group, more than all else of it. The
  // superblock is written already, and stays of version 0. Links in order of creation are of the newer kind anyway.
  if (!wanted.in_order()) {
    require_hdf5(H5Fset_libver_bounds(file.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), kFile);
  }
  return file;
}

/// Makes the datasets in the order in which they come, so that a group is opened once where they are sorted.
class TreeBuilder {
 public:
  TreeBuilder(MemoryFile& memory, const Description& wanted)
      : memory_(memory),
        user_block_(wanted.user_block()),
        file_(create_file(memory, wanted)),
        links_(utf8_links()),
        groups_(group_list(wanted)),
        raw_(raw_list()),
        tight_raw_(without_room(raw_)),
        scalar_(H5Screate(H5S_SCALAR), H5Sclose) {
    Handle root(H5Gopen2(file_.get(), "/", H5P_DEFAULT), H5Gclose);
    put_attributes(root, wanted.root_attributes());
    bool top = !wanted.top_group().empty();
    open_.push_back(top ? make_group(file_.get(), wanted.top_group()) : std::move(root));
  }

  void add(const DescribedDataset& wanted) {
    enter(wanted.path);
    if (wanted.kind == kDescribedLink) return add_link(wanted);
    Handle dataset = make_dataset(wanted);
    put_attributes(dataset, wanted.attributes);
  }

  /// Closes everything, so that the library writes the rest.
  void finish() {
    types_.clear();
    open_.clear();
    require_hdf5(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), kFile);
    file_ = Handle();
  }

 private:
  Handle make_group(hid_t parent, const std::string& name) {
    return {H5Gcreate2(parent, name.c_str(), links_.get(), groups_.get(), H5P_DEFAULT), H5Gclose, "a group"};
  }

  void enter(const std::vector<std::string>& path) {
    std::size_t same = 0;
    while (same < names_.size() && same + 1 < path.size() && names_[same] == path[same]) ++same;
    names_.resize(same);
    while (open_.size() > same + 1) open_.pop_back();
    for (; same + 1 < path.size(); ++same) {
      open_.push_back(make_group(open_.back().get(), path[same]));
      names_.push_back(path[same]);
    }
  }

  void add_link(const DescribedDataset& wanted) {
    std::string target = "/" + wanted.target;
    require_hdf5(H5Lcreate_hard(file_.get(), target.c_str(), open_.back().get(), wanted.path.back().c_str(),
                                links_.get(), H5P_DEFAULT),
                 "a link");
  }

  hid_t type(DType dtype) {
    auto at = types_.find(dtype);
    if (at == types_.end()) at = types_.emplace(dtype, make_type(dtype)).first;
    return at->second.get();
  }

  Handle create(const DescribedDataset& wanted, hid_t list) {
    Handle space = space_of(wanted.dims);
    return {H5Dcreate2(open_.back().get(), wanted.path.back().c_str(), type(wanted.dtype), space.get(), links_.get(),
                       list, H5P_DEFAULT),
            H5Dclose, kDataset};
  }

  Handle make_dataset(const DescribedDataset& wanted) {
    if (wanted.kind == kDescribedVirtual) return create(wanted, virtual_list(wanted, type(wanted.dtype)).get());
    return wanted.kind == kDescribedRaw ? add_raw(wanted) : add_chunked(wanted);
  }

  void require_placed() const {
    if (memory_.payload_placed()) return;
    throw Failure{kFailureInternal, "libhdf5 did not place a tensor where its bytes are"};
  }

  Handle add_raw(const DescribedDataset& wanted) {
    if (wanted.size > 0) memory_.expect_payload(wanted.offset, wanted.size);
    Handle dataset = create(wanted, wanted.attributes.empty() ? tight_raw_.get() : raw_.get());
    require_placed();
    if (wanted.size > 0 && H5Dget_offset(dataset.get()) != user_block_ + wanted.offset) {
      throw Failure{kFailureInternal, "libhdf5 placed a tensor elsewhere than its bytes are"};
    }
    return dataset;
  }

  Handle add_chunked(const DescribedDataset& wanted) {
    Handle list = chunked_list(wanted);
    Handle dataset = create(wanted, list.get());
    std::vector<hsize_t> corner(wanted.chunk.size(), 0);
    std::uint64_t offset = wanted.offset;
    for (std::uint32_t stored : wanted.stored) {
      memory_.expect_payload(offset, stored);
      // The driver drops tensor bytes unread, so the address of anything will do.
      require_hdf5(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, corner.data(), stored, &stored), "a chunk");
      require_placed();
      offset += stored;
      advance(corner, wanted);
    }
    return dataset;
  }

  /// To the next chunk in row-major order.
  static void advance(std::vector<hsize_t>& corner, const DescribedDataset& wanted) {
    for (std::size_t d = corner.size(); d-- > 0;) {
      corner[d] += wanted.chunk[d];
      if (corner[d] < wanted.dims[d]) return;
      corner[d] = 0;
    }
  }

  void put_attributes(const Handle& object, const std::vector<DescribedAttribute>& attributes) {
    for (const DescribedAttribute& attribute : attributes) put_attribute(object, attribute);
  }

  void put_attribute(const Handle& object, const DescribedAttribute& attribute) {
    const char* name = attribute.name.c_str();
    if (attribute.is_list) return put_list(object, attribute);
    if (attribute.kind == kAttributeText) return put_text(object, name, attribute.text);
    if (attribute.kind == kAttributeReal) return put_value(object, name, H5T_IEEE_F64LE, &attribute.real);
    if (attribute.kind == kAttributeInteger) {
      return put_value(object, name, H5T_STD_I64LE, attribute.integers.data());
    }
    auto truth = static_cast<std::int8_t>(attribute.integers.at(0));
    put_value(object, name, type(DType::boolean), &truth);
  }

  void put_value(const Handle& object, const char* name, hid_t type, const void* value) {
    Handle made(H5Acreate2(object.get(), name, type, scalar_.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, kAttribute);
    require_hdf5(H5Awrite(made.get(), type, value), kAttribute);
  }

  void put_text(const Handle& object, const char* name, const std::string& text) {
    Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    require_hdf5(H5Tset_size(type.get(), std::max<std::size_t>(text.size(), 1)), kAttribute);
    require_hdf5(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), kAttribute);
    if (core::is_utf8(text)) require_hdf5(H5Tset_cset(type.get(), H5T_CSET_UTF8), kAttribute);
    put_value(object, name, type.get(), text.c_str());
  }

  static void put_list(const Handle& object, const DescribedAttribute& attribute) {
    hsize_t count = attribute.integers.size();
    Handle space(count == 0 ? H5Screate(H5S_NULL) : H5Screate_simple(1, &count, nullptr), H5Sclose);
    Handle made(H5Acreate2(object.get(), attribute.name.c_str(), H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                H5Aclose, kAttribute);
    if (count > 0) require_hdf5(H5Awrite(made.get(), H5T_NATIVE_INT64, attribute.integers.data()), kAttribute);
  }

  MemoryFile& memory_;
  std::uint64_t user_block_;
  Handle file_;
  Handle links_;
  Handle groups_;
  Handle raw_;
  Handle tight_raw_;
  Handle scalar_;
  std::map<DType, Handle> types_;
  std::vector<std::string> names_;  ///< of the open groups below the top one
  std::vector<Handle> open_;
};

/// What a person needs to find the tensor that libhdf5 does not take.
Failure refusal(const DescribedDataset& dataset, const Failure& failure) {
  if (failure.kind == kFailureInternal) return failure;
  constexpr std::size_t kShown = 200;
  std::string name = core::join(dataset.path, ".");
  return {kFailureUnsupported, "libhdf5 cannot describe " + core::quote(name, kShown) + ", a name of " +
                                   std::to_string(name.size()) + " bytes: " + failure.text};
}

std::size_t read_some(int fd, std::byte* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    ssize_t n = ::read(fd, to + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace

core::ByteVector read_description(int fd) {
  constexpr std::size_t kPiece = 1 << 20;
  std::byte head[8];
  if (read_some(fd, head, sizeof head) < sizeof head) return {};
  auto length = core::load_le<std::uint64_t>(head);
  if (length > kMaxDescription) throw Failure{kFailureRefused, "the description is larger than 4 GiB"};
  core::ByteVector bytes;
  while (bytes.size() < length) {
    std::size_t before = bytes.size();
    bytes.resize(std::min<std::uint64_t>(length, before + std::max(kPiece, before)));
    if (read_some(fd, bytes.data() + before, bytes.size() - before) < bytes.size() - before) return {};
  }
  return bytes;
}

void describe(core::Bytes description, Reply& reply) {
  Description wanted(description);
  MemoryFile memory(wanted.user_block(), wanted.metadata_begin());
  TreeBuilder builder(memory, wanted);
  while (wanted.next()) {
    try {
      builder.add(wanted.dataset());
    } catch (const Failure& failure) {
      throw refusal(wanted.dataset(), failure);
    }
  }
  builder.finish();
  send_image(memory, wanted.datasets(), reply);
}

}  // namespace ckpt::detail
