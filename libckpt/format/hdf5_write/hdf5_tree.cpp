#include "libckpt/format/hdf5_write/hdf5_tree.h"

#include <hdf5.h>

#include <algorithm>
#include <map>

#include "libckpt/format/hdf5_write/hdf5_memory.h"
#include "libckpt/format/hdf5_write/hdf5_types.h"
#include "libckpt/format/hdf5_write/payload_packing.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;

constexpr H5Z_filter_t kZstdFilter = 32015;

/// An attribute of an old-style object must fit into one header message; a longer name can be told from its path.
constexpr std::size_t kMaxTextAttribute = 65'000;
constexpr unsigned kByCreation = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;

struct FloatLayout {
  std::size_t size, exponent_at, exponent_bits, mantissa_bits, bias;
};

Hid float_type(const FloatLayout& layout) {
  Hid type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  require_hdf5(H5Tset_fields(type.get(), layout.size * 8 - 1, layout.exponent_at, layout.exponent_bits, 0,
                             layout.mantissa_bits));
  require_hdf5(H5Tset_ebias(type.get(), layout.bias));
  require_hdf5(H5Tset_precision(type.get(), layout.size * 8));
  require_hdf5(H5Tset_size(type.get(), layout.size));
  return type;
}

Hid boolean_type() {
  Hid type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
  const std::int8_t no = 0;
  const std::int8_t yes = 1;
  require_hdf5(H5Tenum_insert(type.get(), "FALSE", &no));
  require_hdf5(H5Tenum_insert(type.get(), "TRUE", &yes));
  return type;
}

Hid complex_type(hid_t part) {
  std::size_t size = H5Tget_size(part);
  Hid type(H5Tcreate(H5T_COMPOUND, 2 * size), H5Tclose);
  require_hdf5(H5Tinsert(type.get(), "r", 0, part));
  require_hdf5(H5Tinsert(type.get(), "i", size, part));
  return type;
}

Hid copied(hid_t type) {
  return {H5Tcopy(type), H5Tclose};
}

Hid make_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return boolean_type();
    case DType::i8:
    case DType::qint8:
      return copied(H5T_STD_I8LE);
    case DType::i16:
      return copied(H5T_STD_I16LE);
    case DType::i32:
    case DType::qint32:
      return copied(H5T_STD_I32LE);
    case DType::i64:
      return copied(H5T_STD_I64LE);
    case DType::u16:
      return copied(H5T_STD_U16LE);
    case DType::u32:
      return copied(H5T_STD_U32LE);
    case DType::u64:
      return copied(H5T_STD_U64LE);
    case DType::f16:
      return float_type({2, 10, 5, 10, 15});
    case DType::bf16:
      return float_type({2, 7, 8, 7, 127});
    case DType::f32:
      return copied(H5T_IEEE_F32LE);
    case DType::f64:
      return copied(H5T_IEEE_F64LE);
    case DType::c64:
      return complex_type(H5T_IEEE_F32LE);
    case DType::c128:
      return complex_type(H5T_IEEE_F64LE);
    default:
      return copied(H5T_STD_U8LE);
  }
}

Hid group_list(const Hdf5Style& style) {
  Hid list(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  require_hdf5(H5Pset_obj_track_times(list.get(), false));
  if (style.keep_order) require_hdf5(H5Pset_link_creation_order(list.get(), kByCreation));
  return list;
}

/// Space is allocated when a dataset is made and never filled, so that no payload byte passes through the library.
Hid raw_list() {
  Hid list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  require_hdf5(H5Pset_obj_track_times(list.get(), false));
  require_hdf5(H5Pset_layout(list.get(), H5D_CONTIGUOUS));
  require_hdf5(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY));
  require_hdf5(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER));
  return list;
}

Hid chunked_list(const std::vector<hsize_t>& chunk, bool shuffled) {
  Hid list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  require_hdf5(H5Pset_obj_track_times(list.get(), false));
  require_hdf5(H5Pset_chunk(list.get(), static_cast<int>(chunk.size()), chunk.data()));
  require_hdf5(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_INCR));
  require_hdf5(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER));
  if (shuffled) require_hdf5(H5Pset_shuffle(list.get()));
  // Marked optional: the library then does not look for a plugin when it writes. Readers need it all the same.
  const unsigned level = kZstdLevel;
  require_hdf5(H5Pset_filter(list.get(), kZstdFilter, H5Z_FLAG_OPTIONAL, 1, &level));
  return list;
}

Hid utf8_links() {
  Hid list(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  require_hdf5(H5Pset_char_encoding(list.get(), H5T_CSET_UTF8));
  return list;
}

Hid create_file(const Hdf5Memory& memory, std::uint64_t user_block, const Hdf5Style& style) {
  Hid create(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  require_hdf5(H5Pset_userblock(create.get(), user_block));
  require_hdf5(H5Pset_obj_track_times(create.get(), false));
  if (style.keep_order) {
    require_hdf5(H5Pset_link_creation_order(create.get(), kByCreation));
    require_hdf5(H5Pset_attr_creation_order(create.get(), kByCreation));
  }
  return {H5Fcreate("memory", H5F_ACC_TRUNC, create.get(), memory.driver_list()), H5Fclose};
}

/// Makes the datasets in the order of their paths, so that a group is opened once.
class TreeBuilder {
 public:
  TreeBuilder(Hdf5Memory& memory, std::uint64_t user_block, const Hdf5Style& style)
      : memory_(memory),
        style_(style),
        file_(create_file(memory, user_block, style)),
        links_(utf8_links()),
        groups_(group_list(style)),
        raw_(raw_list()),
        scalar_(H5Screate(H5S_SCALAR), H5Sclose) {
    Hid root(H5Gopen2(file_.get(), "/", H5P_DEFAULT), H5Gclose);
    for (const Hdf5RootAttribute& attribute : style.attributes) put_value(root, attribute);
    bool top = !style.top_group.empty();
    open_.push_back(top ? make_group(file_.get(), style.top_group.c_str()) : std::move(root));
  }

  void add(const DatasetPlan& plan) {
    enter(plan.path);
    if (plan.same_as != nullptr) return add_link(plan);
    Hdf5Form form = hdf5_form(plan.entry->dtype, plan.entry->shape);
    Hid dataset = plan.payload->codec == NativeCodec::raw ? add_raw(plan, form) : add_chunked(plan, form);
    bool long_name = plan.name.size() > kMaxTextAttribute;
    if (!long_name && !path_shows_name(plan.path, plan.name)) put_text(dataset, "ckpt_name", plan.name);
    if (form.named_dtype) put_text(dataset, "ckpt_dtype", core::name(plan.entry->dtype));
    if (form.flattened) put_shape(dataset, plan.entry->shape);
    if (style_.locations && plan.entry->location != "cpu") put_text(dataset, "ckpt_location", plan.entry->location);
    if (plan.entry->conjugate) put_text(dataset, "ckpt_view", plan.entry->negative ? "conj neg" : "conj");
    if (!plan.entry->conjugate && plan.entry->negative) put_text(dataset, "ckpt_view", "neg");
  }

  /// Closes everything, so that the library writes the rest.
  void finish() {
    types_.clear();
    open_.clear();
    require_hdf5(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL));
    file_ = Hid();
  }

 private:
  Hid make_group(hid_t parent, const char* name) {
    return {H5Gcreate2(parent, name, links_.get(), groups_.get(), H5P_DEFAULT), H5Gclose};
  }

  void add_link(const DatasetPlan& plan) {
    std::string target = "/" + core::join(*plan.same_as, "/");
    require_hdf5(H5Lcreate_hard(file_.get(), target.c_str(), open_.back().get(), plan.path.back().c_str(), links_.get(),
                                H5P_DEFAULT));
  }

  void put_value(const Hid& object, const Hdf5RootAttribute& attribute) {
    const char* name = attribute.name.c_str();
    const Value& value = attribute.value;
    if (value.is(Value::Kind::text)) return put_text(object, name, value.as_text());
    if (value.is(Value::Kind::integer)) return put_number(object, name, H5T_STD_I64LE, value.as_integer());
    if (value.is(Value::Kind::real)) return put_number(object, name, H5T_IEEE_F64LE, value.as_real());
    put_number(object, name, type(DType::boolean), static_cast<std::int8_t>(value.as_boolean()));
  }

  template <class Number>
  void put_number(const Hid& object, const char* name, hid_t file_type, Number number) {
    Hid made(H5Acreate2(object.get(), name, file_type, scalar_.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    require_hdf5(H5Awrite(made.get(), file_type, &number));
  }

  void enter(const Hdf5Path& path) {
    std::size_t same = 0;
    while (same < names_.size() && same + 1 < path.size() && names_[same] == path[same]) ++same;
    names_.resize(same);
    while (open_.size() > same + 1) open_.pop_back();
    for (; same + 1 < path.size(); ++same) {
      open_.push_back(make_group(open_.back().get(), path[same].c_str()));
      names_.push_back(path[same]);
    }
  }

  hid_t type(DType dtype) {
    auto at = types_.find(dtype);
    if (at == types_.end()) at = types_.emplace(dtype, make_type(dtype)).first;
    return at->second.get();
  }

  static Hid space(const Hdf5Form& form) {
    if (form.dims.empty()) return {H5Screate(H5S_SCALAR), H5Sclose};
    std::vector<hsize_t> dims(form.dims.begin(), form.dims.end());
    return {H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose};
  }

  Hid create(const DatasetPlan& plan, const Hdf5Form& form, hid_t list) {
    Hid where = space(form);
    return {H5Dcreate2(open_.back().get(), plan.path.back().c_str(), type(plan.entry->dtype), where.get(), links_.get(),
                       list, H5P_DEFAULT),
            H5Dclose};
  }

  void require_placed() const {
    if (memory_.payload_placed()) return;
    throw core::Error(core::ErrorCode::internal, "libhdf5 did not place a tensor where its bytes are");
  }

  Hid add_raw(const DatasetPlan& plan, const Hdf5Form& form) {
    std::uint64_t size = plan.entry->byte_size();
    if (size > 0) memory_.expect_payload(plan.payload->offset + plan.offset, size);
    Hid dataset = create(plan, form, raw_.get());
    require_placed();
    return dataset;
  }

  Hid add_chunked(const DatasetPlan& plan, const Hdf5Form& form) {
    const ChunkTable& chunks = plan.payload->chunks;
    std::vector<std::uint64_t> dims = chunk_dims(form.dims, form.width, chunks.chunk);
    std::vector<hsize_t> chunk(dims.begin(), dims.end());
    Hid list = chunked_list(chunk, plan.payload->shuffle != 0);
    Hid dataset = create(plan, form, list.get());
    std::vector<hsize_t> corner(chunk.size(), 0);
    std::uint64_t offset = plan.payload->offset;
    for (std::uint32_t stored : chunks.stored) {
      memory_.expect_payload(offset, stored);
      // The driver drops tensor bytes unread, so the address of anything will do.
      require_hdf5(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, corner.data(), stored, &stored));
      require_placed();
      offset += stored;
      advance(corner, chunk, form.dims);
    }
    return dataset;
  }

  /// To the next chunk in row-major order.
  static void advance(std::vector<hsize_t>& corner, const std::vector<hsize_t>& chunk,
                      const std::vector<std::uint64_t>& dims) {
    for (std::size_t d = corner.size(); d-- > 0;) {
      corner[d] += chunk[d];
      if (corner[d] < dims[d]) return;
      corner[d] = 0;
    }
  }

  void put_text(const Hid& dataset, const char* attribute, std::string_view text) {
    std::string value(text);
    Hid type(H5Tcopy(H5T_C_S1), H5Tclose);
    require_hdf5(H5Tset_size(type.get(), std::max<std::size_t>(value.size(), 1)));
    require_hdf5(H5Tset_strpad(type.get(), H5T_STR_NULLPAD));
    if (core::is_utf8(value)) require_hdf5(H5Tset_cset(type.get(), H5T_CSET_UTF8));
    Hid made(H5Acreate2(dataset.get(), attribute, type.get(), scalar_.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    require_hdf5(H5Awrite(made.get(), type.get(), value.c_str()));
  }

  static void put_shape(const Hid& dataset, const core::Shape& shape) {
    hsize_t rank = shape.size();
    Hid space(rank == 0 ? H5Screate(H5S_NULL) : H5Screate_simple(1, &rank, nullptr), H5Sclose);
    Hid made(H5Acreate2(dataset.get(), "ckpt_shape", H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    if (rank > 0) require_hdf5(H5Awrite(made.get(), H5T_NATIVE_INT64, shape.data()));
  }

  Hdf5Memory& memory_;
  const Hdf5Style& style_;
  Hid file_;
  Hid links_;
  Hid groups_;
  Hid raw_;
  Hid scalar_;
  std::map<DType, Hid> types_;
  std::vector<std::string> names_;  ///< of the open groups below the top one
  std::vector<Hid> open_;
};

/// The root group's entry in the superblock may repeat where the group lies. Newer libraries clear that when they
/// merely open a file for writing, which would make an unchanged file look changed; so it is never set.
void clear_cached_root(core::ByteVector& superblock) {
  constexpr std::size_t kCacheType = 72;
  constexpr std::size_t kEnd = 96;
  if (superblock.size() != kEnd) throw core::Error(core::ErrorCode::internal, "libhdf5 wrote another superblock");
  std::fill(superblock.begin() + kCacheType, superblock.end(), std::byte{0});
}

}  // namespace

Hdf5Image build_hdf5(std::vector<DatasetPlan> datasets, const Hdf5Place& place, const Hdf5Style& style) {
  Hdf5Silence silence;
  if (!style.keep_order) {
    std::sort(datasets.begin(), datasets.end(),
              [](const DatasetPlan& a, const DatasetPlan& b) { return a.path < b.path; });
  }
  Hdf5Memory memory(place.user_block, place.metadata_begin);
  TreeBuilder builder(memory, place.user_block, style);
  for (const DatasetPlan& plan : datasets) builder.add(plan);
  builder.finish();
  Hdf5Image image{memory.take_superblock(), memory.take_metadata()};
  clear_cached_root(image.superblock);
  return image;
}

std::vector<std::size_t> in_group_order(const std::vector<Hdf5Path>& paths) {
  // Every group and dataset gets the number of the first path that goes through it; paths are sorted by those.
  std::map<std::pair<std::size_t, std::string_view>, std::size_t> numbers;
  std::vector<std::vector<std::size_t>> keys(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::size_t parent = 0;
    for (const std::string& step : paths[i]) {
      parent = numbers.try_emplace({parent, step}, numbers.size() + 1).first->second;
      keys[i].push_back(parent);
    }
  }
  std::vector<std::size_t> order(paths.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  return order;
}

}  // namespace ckpt::detail
