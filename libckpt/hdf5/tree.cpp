#include "libckpt/hdf5/tree.h"

#include <algorithm>

#include "libckpt/hdf5/helper_child.h"
#include "libckpt/hdf5/helper_process.h"
#include "libckpt/io/packed.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/text.h"

namespace ckpt {

using core::Error;
using core::ErrorCode;

std::uint64_t Hdf5Dataset::chunk_bytes() const {
  std::uint64_t bytes = width;
  for (std::uint64_t side : chunk) bytes *= side;
  return bytes;
}

std::uint64_t Hdf5Dataset::stored_bytes() const {
  if (layout == detail::kLayoutContiguous) return size;
  std::uint64_t bytes = compact.size();
  for (const Hdf5Chunk& c : chunks) bytes += c.stored;
  return bytes;
}

const Hdf5Attribute* find_attribute(const std::vector<Hdf5Attribute>& attributes, std::string_view name) {
  auto at = std::find_if(attributes.begin(), attributes.end(), [&](const Hdf5Attribute& a) { return a.name == name; });
  return at == attributes.end() ? nullptr : &*at;
}

namespace {

struct LayerText {
  detail::SandboxLayer layer;
  const char* name;
  const char* purpose;
};

constexpr LayerText kLayers[] = {
    {detail::kLayerFiles, "Landlock", "keeps it from other files"},
    {detail::kLayerCalls, "seccomp", "keeps it from other programs and the network"},
    {detail::kLayerLimits, "setrlimit", "bounds its memory and time"},
};

std::string refusal_text(std::uint8_t layers) {
  std::string missing;
  for (const LayerText& text : kLayers) {
    if ((layers & text.layer) != 0) continue;
    missing += std::string(missing.empty() ? "" : ", ") + text.name + " (" + text.purpose + ")";
  }
  return "this system does not let the HDF5 helper be confined: it refuses " + missing +
         "; a hostile HDF5 file could use that";
}

}  // namespace

UnconfinedHelper::UnconfinedHelper(std::uint8_t layers)
    : HintedError(ErrorCode::refused, refusal_text(layers),
                  Hint{"read it with {} (unsandboxed in the open options) if you trust where it is from",
                       {{Hint::Option::unsandboxed}}}) {}

std::vector<std::string> unconfined_warnings(std::uint8_t layers) {
  std::vector<std::string> warnings;
  for (const LayerText& text : kLayers) {
    if ((layers & text.layer) != 0) continue;
    warnings.push_back(std::string("the HDF5 helper ran without ") + text.name + ", which " + text.purpose +
                       ": this system refuses it");
  }
  return warnings;
}

namespace detail {
namespace {

constexpr std::uint64_t kMaxRank = 32;  ///< the library's own limit
constexpr std::uint64_t kMaxChunkSide = UINT32_MAX;
constexpr std::uint64_t kMaxChunk = 1ULL << 30;  ///< bytes of a chunk when decoded
constexpr std::uint64_t kMaxShapeExpansion = 1000;
constexpr std::uint64_t kMaxFilled = 4ULL << 30;  ///< bytes that may be listed without being stored

[[noreturn]] void throw_wrong_answer(const std::string& what) {
  throw Error(ErrorCode::corrupt, "the HDF5 helper's answer contradicts itself: " + what);
}

ErrorCode code_of(std::uint8_t kind) {
  switch (kind) {
    case kFailureRefused:
      return ErrorCode::refused;
    case kFailureUnsupported:
    case kFailureInternal:
      return ErrorCode::unsupported;
    default:
      return ErrorCode::corrupt;
  }
}

/// Names in it were quoted by the helper; what else might move a cursor is escaped here.
std::string harmless(std::string_view text) {
  std::string out = core::printable(text);
  for (std::size_t at = out.find("\\\\"); at != std::string::npos; at = out.find("\\\\", at + 1)) out.erase(at, 1);
  return out;
}

class WalkParser {
 public:
  WalkParser(std::uint64_t file_size, const Limits& limits) : file_size_(file_size), limits_(limits) {
    tree_.objects.emplace_back();
  }

  Hdf5Tree run(core::Bytes answer) {
    ByteCursor in(answer, "the HDF5 helper's answer");
    tree_.layers = take_hello(in);
    while (!ended_) {
      auto tag = in.take<std::uint8_t>();
      ByteCursor content(in.take_bytes(in.take<std::uint32_t>()), "a part of the HDF5 helper's answer");
      take_frame(tag, content);
      if (!content.at_end()) throw_wrong_answer("bytes are left in a part");
    }
    if (!in.at_end()) throw_wrong_answer("bytes are left after its end");
    return std::move(tree_);
  }

 private:
  void take_frame(std::uint8_t tag, ByteCursor& in) {
    switch (tag) {
      case kFrameStage:
        stage_ = in.take_text(in.remaining());
        break;
      case kFrameLink:
        take_link(in);
        break;
      case kFrameGroup:
        take_group(in);
        break;
      case kFrameDataset:
        take_dataset(in);
        break;
      case kFrameFailure:
        fail(in);
      case kFrameEnd:
        take_end(in);
        break;
      default:
        throw_wrong_answer("a part has the unknown tag " + std::to_string(tag));
    }
  }

  [[noreturn]] void fail(ByteCursor& in) {
    auto kind = in.take<std::uint8_t>();
    if (kind == kFailureUnconfined) throw UnconfinedHelper(tree_.layers);
    std::string text = harmless(in.take_text(in.remaining()));
    if (text.empty()) throw_wrong_answer("a failure without a reason");
    if (kind != kFailureCorrupt) throw Error(code_of(kind), text);
    throw Error(code_of(kind), "HDF5: " + text + " (while " + core::printable(stage_) + ")");
  }

  void take_end(ByteCursor& in) {
    tree_.user_block = take_count(in);
    std::uint64_t objects = take_count(in);
    tree_.end = take_count(in);
    tree_.unused = take_count(in);
    if (objects != tree_.objects.size() || open_dataset_) throw_wrong_answer("objects are missing");
    require_before_end();
    ended_ = true;
  }

  /// What lies behind the end that the superblock states belongs to no dataset, although the file goes on.
  void require_before_end() const {
    for (const Hdf5Object& object : tree_.objects) {
      if (!object.dataset || last_byte_of(*object.dataset) <= tree_.end) continue;
      throw Error(ErrorCode::corrupt, core::quote(object.dataset->path) + ": its bytes end at " +
                                          std::to_string(last_byte_of(*object.dataset)) +
                                          ", behind the end of the HDF5 data at " + std::to_string(tree_.end));
    }
  }

  static std::uint64_t last_byte_of(const Hdf5Dataset& dataset) {
    std::uint64_t last = dataset.layout == kLayoutContiguous && dataset.size > 0 ? dataset.offset + dataset.size : 0;
    for (const Hdf5Chunk& chunk : dataset.chunks) last = std::max(last, chunk.offset + chunk.stored);
    return last;
  }

  Hdf5Object& group(std::uint64_t number) {
    if (number >= tree_.objects.size() || tree_.objects[number].dataset) throw_wrong_answer("there is no such group");
    return tree_.objects[number];
  }

  void take_link(ByteCursor& in) {
    if (open_dataset_) throw_wrong_answer("a dataset was not described");
    std::uint64_t parent = take_count(in);
    Hdf5Link link;
    auto kind = in.take<std::uint8_t>();
    if (kind > kLinkOutside) throw_wrong_answer("a link of an unknown kind");
    link.kind = static_cast<LinkKind>(kind);
    std::uint64_t target = take_count(in);
    link.name = take_string(in);
    require_name(link.name);
    if (link.kind == kLinkSoft || link.kind == kLinkOutside) link.value = take_string(in);
    if (++links_ > limits_.max_tensors) throw Error(ErrorCode::refused, "it has more links than the limit");
    bool is_new = link.kind == kLinkGroup || link.kind == kLinkDataset;
    if (is_new ? target != tree_.objects.size() : target >= tree_.objects.size())
      throw_wrong_answer("a link has no target");
    if (link.kind == kLinkKnown && !tree_.objects[target].dataset) throw_wrong_answer("a group has two parents");
    link.object = static_cast<std::uint32_t>(target);
    open_dataset_ = link.kind == kLinkDataset;
    group(parent).links.push_back(link);
    if (!is_new) return;
    places_.emplace_back(parent, std::move(link.name));
    if (++depth_.emplace_back(depth_[parent]) > limits_.max_hdf5_depth + 1) {
      throw Error(ErrorCode::refused, "groups are nested deeper than the limit");
    }
    tree_.objects.emplace_back();
    if (open_dataset_) tree_.objects.back().dataset.emplace().path = path_of(target);
  }

  /// Links from the root; their end when they are long, for many datasets may lie below one long path.
  std::string path_of(std::uint64_t number) const {
    constexpr std::size_t kLong = 1024;
    std::string path = places_[number].second;
    for (number = places_[number].first; number != 0 && path.size() < kLong; number = places_[number].first) {
      path = places_[number].second + "/" + path;
    }
    return path.size() <= kLong ? path : "..." + path.substr(path.size() - kLong);
  }

  void require_name(const std::string& name) const {
    if (name.size() > limits_.max_name) {
      throw Error(ErrorCode::refused, "an object has a name of " + std::to_string(name.size()) +
                                          " bytes; the limit is " + std::to_string(limits_.max_name));
    }
    if (name.empty() || !core::is_utf8(name) || name.find('/') != std::string::npos) throw_wrong_answer("a bad name");
  }

  void take_group(ByteCursor& in) {
    Hdf5Object& object = group(take_count(in));
    object.in_order = (in.take<std::uint8_t>() & kGroupInOrder) != 0;
    object.attributes = take_attributes(in);
  }

  void take_dataset(ByteCursor& in) {
    if (!open_dataset_ || take_count(in) + 1 != tree_.objects.size()) throw_wrong_answer("a dataset without a link");
    open_dataset_ = false;
    Hdf5Dataset& dataset = *tree_.objects.back().dataset;
    core::with_context(core::quote(dataset.path), [&] {
      take_type(in, dataset);
      take_space(in, dataset);
      core::Bytes fill = take_run(in);
      if (!fill.empty() && fill.size() != dataset.width) throw_wrong_answer("a fill value of another size");
      dataset.fill.assign(fill.begin(), fill.end());
      take_layout(in, dataset);
      dataset.attributes = take_attributes(in);
      require_plausible(dataset);
    });
  }

  static void take_type(ByteCursor& in, Hdf5Dataset& dataset) {
    std::string name = take_string(in);
    dataset.type = core::printable(take_string(in));
    auto flags = in.take<std::uint8_t>();
    dataset.big_endian = (flags & kTypeBigEndian) != 0;
    dataset.is_enum = (flags & kTypeEnum) != 0;
    dataset.width = take_count(in);
    dataset.opaque16 = name == "opaque16";
    if (name.empty()) return;
    if (!dataset.opaque16) dataset.dtype = core::try_parse_dtype(name);
    std::uint64_t width = dataset.opaque16 ? 2 : dataset.dtype ? std::uint64_t(core::bit_width(*dataset.dtype)) / 8 : 0;
    if (width == 0 || width != dataset.width) throw_wrong_answer("a type of another width");
  }

  void take_space(ByteCursor& in, Hdf5Dataset& dataset) const {
    auto kind = in.take<std::uint8_t>();
    dataset.has_space = kind == kSpaceSimple;
    if (!dataset.has_space) return;
    std::uint64_t rank = take_length(in);
    if (rank > std::min(kMaxRank, limits_.max_rank)) throw Error(ErrorCode::refused, "too many dimensions");
    for (std::uint64_t d = 0; d < rank; ++d) dataset.dims.push_back(take_count(in));
    std::optional<std::uint64_t> size = dataset.width;
    for (std::uint64_t side : dataset.dims) {
      if (side > INT64_MAX) size.reset();
      if (size) size = core::try_mul<std::uint64_t>(*size, std::max<std::uint64_t>(side, 1));
    }
    if (!size || *size > INT64_MAX)
      throw Error(ErrorCode::refused, "its shape declares more bytes than 63 bits can count");
    bool empty = std::find(dataset.dims.begin(), dataset.dims.end(), 0U) != dataset.dims.end();
    dataset.size = empty ? 0 : *size;
  }

  void require_inside(std::uint64_t offset, std::uint64_t size) const {
    if (offset <= file_size_ && size <= file_size_ - offset) return;
    throw Error(ErrorCode::corrupt, "its bytes " + std::to_string(offset) + " to " + std::to_string(offset) + "+" +
                                        std::to_string(size) + " lie outside the file of " +
                                        std::to_string(file_size_) + " bytes");
  }

  void take_layout(ByteCursor& in, Hdf5Dataset& dataset) {
    auto kind = in.take<std::uint8_t>();
    if (kind > kLayoutUnread) throw_wrong_answer("an unknown layout");
    dataset.layout = static_cast<LayoutKind>(kind);
    if (kind == kLayoutOutside) {
      dataset.outside = core::printable(take_string(in));
    } else if (kind == kLayoutCompact) {
      core::Bytes bytes = take_run(in);
      if (bytes.size() != dataset.size) throw_wrong_answer("compact data of another size");
      dataset.compact.assign(bytes.begin(), bytes.end());
    } else if (kind == kLayoutContiguous) {
      dataset.offset = take_count(in);
      std::uint64_t stored = take_count(in);
      if (stored < dataset.size) {
        throw Error(ErrorCode::corrupt, "it holds " + std::to_string(stored) + " bytes where its shape needs " +
                                            std::to_string(dataset.size));
      }
      require_inside(dataset.offset, dataset.size);
    } else if (kind == kLayoutChunked) {
      take_chunked(in, dataset);
    }
  }

  void take_chunked(ByteCursor& in, Hdf5Dataset& dataset) {
    if (dataset.dims.empty()) throw_wrong_answer("a dataset in chunks without dimensions");
    std::uint64_t bytes = dataset.width;
    std::uint64_t places = 1;
    for (std::uint64_t side : dataset.dims) {
      std::uint64_t part = take_count(in);
      if (part == 0 || part > kMaxChunkSide) throw_wrong_answer("a chunk with an impossible side");
      bytes = core::checked_mul(bytes, part);
      places = core::checked_mul(places, side / part + (side % part != 0 ? 1 : 0));
      dataset.chunk.push_back(part);
    }
    if (bytes > kMaxChunk) {
      throw Error(ErrorCode::refused,
                  "its chunks are " + core::format_size(bytes) + " each; the limit is " + core::format_size(kMaxChunk));
    }
    take_filters(in, dataset);
    std::uint64_t count = take_length(in);
    if (count > places) throw_wrong_answer("more chunks than places for them");
    dataset.chunks.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) take_chunk(in, dataset, places, bytes);
    require_apart(dataset);
  }

  /// Chunks of one dataset never share bytes; one that did would be stored once and decoded many times.
  static void require_apart(const Hdf5Dataset& dataset) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    ranges.reserve(dataset.chunks.size());
    for (const Hdf5Chunk& chunk : dataset.chunks) ranges.emplace_back(chunk.offset, chunk.offset + chunk.stored);
    std::sort(ranges.begin(), ranges.end());
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].first >= ranges[i - 1].second) continue;
      throw Error(ErrorCode::corrupt,
                  "two of its chunks lie one upon the other at byte " + std::to_string(ranges[i].first));
    }
  }

  static void take_filters(ByteCursor& in, Hdf5Dataset& dataset) {
    std::uint64_t count = take_length(in);
    for (std::uint64_t i = 0; i < count; ++i) {
      Hdf5Filter& filter = dataset.filters.emplace_back();
      filter.id = static_cast<std::uint32_t>(take_count(in));
      std::uint64_t values = take_length(in);
      for (std::uint64_t v = 0; v < values; ++v) filter.values.push_back(static_cast<std::uint32_t>(take_count(in)));
    }
  }

  void take_chunk(ByteCursor& in, Hdf5Dataset& dataset, std::uint64_t places, std::uint64_t bytes) const {
    Hdf5Chunk chunk;
    chunk.number = take_count(in);
    chunk.offset = take_count(in);
    chunk.stored = take_count(in);
    chunk.skipped = static_cast<std::uint32_t>(take_count(in));
    bool rising = dataset.chunks.empty() || chunk.number > dataset.chunks.back().number;
    if (!rising || chunk.number >= places || chunk.stored == 0) throw_wrong_answer("a chunk in an impossible place");
    require_inside(chunk.offset, chunk.stored);
    std::uint64_t applied = 0;
    for (std::size_t i = 0; i < dataset.filters.size(); ++i)
      applied += (chunk.skipped >> std::min<std::size_t>(i, 31) & 1) == 0;
    if (applied == 0 && chunk.stored != bytes) {
      throw Error(ErrorCode::corrupt, "a chunk takes " + std::to_string(chunk.stored) + " bytes where " +
                                          std::to_string(bytes) + " were expected");
    }
    dataset.chunks.push_back(chunk);
  }

  /// A shape that promises far more than is stored would make every reader reach for memory.
  void require_plausible(const Hdf5Dataset& dataset) const {
    if (!dataset.is_tensor() || dataset.size <= kMaxFilled) return;
    std::uint64_t stored = dataset.stored_bytes();
    if (!dataset.outside.empty() || dataset.size / kMaxShapeExpansion <= stored) return;
    throw Error(ErrorCode::refused, "its shape declares " + core::format_size(dataset.size) + " where " +
                                        core::format_size(stored) + " are stored; more than " +
                                        std::to_string(kMaxShapeExpansion) + " times as much is not read");
  }

  static std::vector<Hdf5Attribute> take_attributes(ByteCursor& in) {
    std::vector<Hdf5Attribute> attributes;
    std::uint64_t count = take_length(in);
    for (std::uint64_t i = 0; i < count; ++i) {
      Hdf5Attribute& attribute = attributes.emplace_back();
      attribute.name = take_string(in);
      auto kind = in.take<std::uint8_t>();
      if (kind > kAttributeBoolean) throw_wrong_answer("an attribute of an unknown kind");
      attribute.kind = static_cast<AttributeKind>(kind);
      attribute.is_list = in.take<std::uint8_t>() != 0;
      std::uint64_t values = take_length(in);
      for (std::uint64_t v = 0; v < values; ++v) take_value(in, attribute);
    }
    return attributes;
  }

  static void take_value(ByteCursor& in, Hdf5Attribute& attribute) {
    switch (attribute.kind) {
      case kAttributeInteger:
        attribute.integers.push_back(in.take<std::int64_t>());
        break;
      case kAttributeUnsigned:
        attribute.naturals.push_back(in.take<std::uint64_t>());
        break;
      case kAttributeReal:
        attribute.reals.push_back(in.take<double>());
        break;
      case kAttributeBoolean:
        attribute.integers.push_back(in.take<std::uint8_t>() != 0 ? 1 : 0);
        break;
      default:
        attribute.texts.push_back(take_string(in));
    }
  }

  std::uint64_t file_size_;
  const Limits& limits_;
  Hdf5Tree tree_;
  std::string stage_;
  std::vector<std::pair<std::uint64_t, std::string>> places_ = {{}};  ///< of every object: parent, name in it
  std::vector<std::uint64_t> depth_ = {0};                            ///< of every object
  bool open_dataset_ = false;
  bool ended_ = false;
  std::uint64_t links_ = 0;
};

}  // namespace

Hdf5Tree parse_walk(core::Bytes answer, std::uint64_t file_size, const Limits& limits) {
  return WalkParser(file_size, limits).run(answer);
}

}  // namespace detail

Hdf5Tree walk_hdf5(const ByteSource& file, const WalkOptions& options) {
  constexpr std::uint64_t kAnswerAtLeast = 64ULL << 20;
  constexpr std::uint64_t kSecondsAtLeast = 5;
  const Limits& limits = options.limits;
  // An honest structure is about as large as its description; a small file has no reason to take long.
  detail::HelperJob job;
  job.max_objects = limits.max_tensors;
  job.max_depth = limits.max_hdf5_depth;
  job.seconds = std::min(limits.max_helper_seconds, kSecondsAtLeast + (file.size() >> 20));
  job.max_answer = core::checked_add(kAnswerAtLeast, core::checked_mul<std::uint64_t>(2, file.size()));
  job.measure = options.measure;
  job.unsandboxed = options.unsandboxed;
  core::ByteVector answer = detail::run_hdf5_helper(file, job);
  Hdf5Tree tree = detail::parse_walk(answer, file.size(), limits);
  if (tree.layers != detail::kAllLayers && !options.unsandboxed) throw UnconfinedHelper(tree.layers);
  file.require_unchanged();
  return tree;
}

}  // namespace ckpt
