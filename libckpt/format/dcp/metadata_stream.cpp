#include "libckpt/format/dcp/metadata_stream.h"

#include <array>

#include "libckpt/format/dcp/objects.h"
#include "libckpt/format/dcp/pickle_stream.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using Unusual = PickleStream::Unusual;

void require(bool usual) {
  if (!usual) throw Unusual();
}

/// Names of attributes, by the numbers that the stream gives them.
enum Attribute : std::uint32_t {
  kItems,
  kPlanner,
  kStorage,
  kStorageMeta,
  kVersion,
  kProperties,
  kSize,
  kChunks,
  kOffsets,
  kSizes,
  kName,
  kOffset,
  kIndexHint,
  kPath,
  kLength,
  kTransforms,
  kSaveId,
  kCheckpointId,
  kLoadId,
  kModules,
  kAttributes,
};
constexpr std::array<std::string_view, kAttributes> kAttributeNames = {"state_dict_metadata",
                                                                       "planner_data",
                                                                       "storage_data",
                                                                       "storage_meta",
                                                                       "version",
                                                                       "properties",
                                                                       "size",
                                                                       "chunks",
                                                                       "offsets",
                                                                       "sizes",
                                                                       "fqn",
                                                                       "offset",
                                                                       "index",
                                                                       "relative_path",
                                                                       "length",
                                                                       "transform_descriptors",
                                                                       "save_id",
                                                                       "checkpoint_id",
                                                                       "load_id",
                                                                       "modules"};

constexpr std::uint32_t bit(std::uint32_t attribute) {
  return 1U << attribute;
}

enum class Class : std::uint8_t { none, metadata, tensor, bytes, properties, chunk, index, info, storage_meta, size };

Class class_of(const PickleSymbol& symbol) {
  constexpr std::pair<std::string_view, Class> kKnown[] = {
      {"Metadata", Class::metadata},          {"TensorStorageMetadata", Class::tensor},
      {"BytesStorageMetadata", Class::bytes}, {"TensorProperties", Class::properties},
      {"ChunkStorageMetadata", Class::chunk}, {"MetadataIndex", Class::index},
      {"_StorageInfo", Class::info},          {"StorageMeta", Class::storage_meta},
  };
  if (symbol.full == "torch.Size") return Class::size;
  if (!symbol.full.starts_with("torch.distributed.")) return Class::none;
  const std::string_view name = std::string_view(symbol.full).substr(symbol.full.rfind('.') + 1);
  for (const auto& [known, type] : kKnown) {
    if (name == known) return type;
  }
  return Class::none;
}

/// A torch.Size.
class Coordinates {
 public:
  void clear() { size_ = 0; }
  void add(std::int64_t n) {
    require(size_ < at_.size());
    at_[size_++] = n;
  }
  std::size_t size() const { return size_; }
  DcpChunks::Numbers span() const { return {at_.data(), size_}; }
  core::Shape shape() const { return core::Shape(span()); }

 private:
  std::array<std::int64_t, 16> at_{};
  std::size_t size_ = 0;
};

class MetadataStream {
 public:
  MetadataStream(const ByteSource& file, const OpenOptions& options) : in_(file), options_(options) {
    for (std::string_view name : kAttributeNames) in_.intern(name);
  }

  DcpMetadata run() {
    in_.start();
    begin(Class::metadata);
    attributes(bit(kItems) | bit(kStorage), [&](std::uint32_t name) { read_part(name); });
    in_.finish();
    for (const PickleSymbol& symbol : in_.symbols()) require(symbol.role < SymbolRole::foreign);
    for (const DcpItem& item : out_.items) require(item.is_tensor ? item.chunks.are_apart() : item.place.has_value());
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  Class symbol_class() {
    const std::uint32_t number = in_.symbol();
    while (classes_.size() <= number) {
      const PickleSymbol& symbol = in_.symbol_of(static_cast<std::uint32_t>(classes_.size()));
      require(symbol.role < SymbolRole::foreign);
      classes_.push_back(class_of(symbol));
    }
    return classes_[number];
  }

  /// An object of this class, whose attributes follow.
  void begin(Class wanted) {
    require(symbol_class() == wanted);
    make();
  }
  void make() {
    in_.expect(')');
    in_.expect(0x81);
    in_.forget();
  }

  /// Those of the object that was begun, each once; all of `needed` are there.
  template <class Read>
  void attributes(std::uint32_t needed, Read read) {
    std::uint32_t seen = 0;
    in_.expect('}');
    in_.forget();
    in_.expect('(');
    while (!in_.take('u')) {
      const std::uint32_t name = in_.text();
      require(name < kAttributes && (seen & bit(name)) == 0);
      seen |= bit(name);
      read(name);
    }
    in_.expect('b');
    require((seen & needed) == needed);
  }

  /// Keys and values of a dict of several, which begins with words that this library's memo keeps for later.
  template <class Read>
  void entries(Read read) {
    in_.expect('}');
    in_.forget();
    while (in_.peek() != '(') {
      in_.word();
      in_.expect('0');
    }
    while (in_.take('(')) read_batch('u', read);
  }

  /// Up to the opcode that takes it; Python writes no larger ones.
  template <class Read>
  void read_batch(std::uint8_t end, Read read) {
    constexpr std::size_t kMost = 1000;
    for (std::size_t count = 0; !in_.take(end); ++count) {
      require(count < kMost);
      read();
    }
  }

  void read_part(std::uint32_t name) {
    if (name == kItems) return entries([&] { read_item(); });
    if (name == kStorage) return entries([&] { read_place(); });
    if (name == kPlanner && !in_.take('N')) return entries([&] { read_path(); });
    if (name == kStorageMeta && !in_.take('N')) return read_storage_meta();
    if (name == kVersion) return skip();
    require(name == kPlanner || name == kStorageMeta);
  }

  void read_item() {
    const std::uint32_t name = in_.text();
    require(number_of(name) == kNone && out_.items.size() < options_.limits.max_tensors);
    if (items_.size() <= name) items_.resize(std::size_t{name} + 1, kNone);
    items_[name] = static_cast<std::uint32_t>(out_.items.size());
    next_.push_back(0);
    DcpItem& item = out_.items.emplace_back();
    item.name = in_.text_of(name);
    const Class type = symbol_class();
    item.is_tensor = type == Class::tensor;
    make();
    if (item.is_tensor) return read_tensor(item);
    require(type == Class::bytes);
    if (in_.peek() == '}') read_no_attributes();
  }
  void read_no_attributes() {
    in_.expect('}');
    in_.forget();
    if (in_.take('(')) in_.expect('u');
    in_.expect('b');
  }

  std::uint32_t number_of(std::uint32_t text) const { return text < items_.size() ? items_[text] : kNone; }

  void read_tensor(DcpItem& item) {
    attributes(bit(kProperties) | bit(kSize) | bit(kChunks), [&](std::uint32_t name) {
      if (name == kProperties) return read_properties(item);
      if (name == kSize) {
        read_size(offsets_);
        item.shape = offsets_.shape();
        return require(item.shape.size() <= options_.limits.max_rank);
      }
      require(name == kChunks);
      read_chunks(item.chunks);
    });
  }

  void read_properties(DcpItem& item) {
    begin(Class::properties);
    in_.expect('(');
    const std::uint32_t type = in_.symbol();
    const PickleSymbol& symbol = in_.symbol_of(type);
    const std::optional<core::DType> dtype = dtype_symbol(symbol.full);
    require(dtype && symbol.role < SymbolRole::foreign);
    item.dtype = *dtype;
    skip();
    item.requires_grad = in_.take(0x88);
    if (!item.requires_grad) in_.expect(0x89);
    skip_members();
    in_.expect('b');
  }

  /// What follows in a tuple behind a mark: the memory format, whether memory is pinned, the strides as a tuple or
  /// None.
  void skip_members() {
    std::size_t members = 0;
    for (; !in_.take('t'); ++members) {
      const std::uint8_t code = in_.peek();
      if (code < 0x85 || code > 0x87) {
        in_.take('(') ? skip_numbers() : skip();
        continue;
      }
      const std::size_t joined = code - 0x84U;
      require(members >= joined);
      members -= joined;
      in_.expect(code);
      in_.forget();
    }
    in_.forget();
  }

  void skip_numbers() {
    while (!in_.take('t')) in_.count();
    in_.forget();
  }

  /// Also one that stands alone, without a batch.
  void read_chunks(DcpChunks& chunks) {
    in_.expect(']');
    in_.forget();
    while (in_.take('(')) read_batch('e', [&] { read_chunk(chunks); });
    if (chunks.empty() && in_.peek() != 'u') {
      read_chunk(chunks);
      in_.expect('a');
    }
    chunks.shrink_to_fit();
  }
  void read_chunk(DcpChunks& chunks) {
    begin(Class::chunk);
    attributes(bit(kOffsets) | bit(kSizes), [&](std::uint32_t name) {
      require(name == kOffsets || name == kSizes);
      read_size(name == kOffsets ? offsets_ : sizes_);
    });
    chunks.add_box(offsets_.span(), sizes_.span());
  }

  void read_size(Coordinates& numbers) {
    require(symbol_class() == Class::size);
    numbers.clear();
    if (!in_.take(')')) {
      read_members(numbers);
      in_.forget();
    }
    in_.expect(0x85);
    in_.forget();
    in_.expect('R');
    in_.forget();
  }
  void read_members(Coordinates& numbers) {
    const bool is_marked = in_.take('(');
    do {
      numbers.add(in_.count());
    } while (!ends_tuple(is_marked, numbers.size()));
  }
  /// Past three, members stand behind a mark.
  bool ends_tuple(bool is_marked, std::size_t members) {
    if (is_marked) return in_.take('t');
    require(members <= 3);
    return in_.take(static_cast<std::uint8_t>(0x84 + members));
  }

  void read_path() {
    const std::uint32_t number = number_of(in_.text());
    require(number != kNone && out_.items[number].path.empty());
    std::vector<PathStep>& path = out_.items[number].path;
    const bool is_marked = in_.take('(');
    std::size_t text = 0;
    do {
      require(path.size() < options_.limits.max_depth);
      path.push_back(read_step());
      if (const auto* key = std::get_if<std::string>(&path.back())) text += key->size();
      require(text <= most_path_text(out_.items[number].name));
    } while (!ends_tuple(is_marked, path.size()));
    in_.forget();
  }
  PathStep read_step() {
    const std::uint8_t code = in_.peek();
    if (code == 'K' || code == 'M' || code == 'J') return in_.count();
    return in_.text_of(in_.text());
  }

  void read_place() {
    std::uint32_t text = kNone;
    std::int64_t hint = -1;
    offsets_.clear();
    begin(Class::index);
    attributes(bit(kName), [&](std::uint32_t name) {
      if (name == kName) {
        text = in_.text();
      } else if (name == kOffset) {
        if (!in_.take('N')) read_size(offsets_);
      } else {
        require(name == kIndexHint);
        if (!in_.take('N')) hint = in_.count();
      }
    });
    read_info();
    const std::uint32_t number = number_of(text);
    require(number != kNone);
    DcpItem& item = out_.items[number];
    if (item.is_tensor) return place_chunk(number, hint < 0 ? next_[number] : static_cast<std::size_t>(hint));
    require(!item.place && offsets_.size() == 0);
    item.place = DcpPlace{in_.text_of(file_), at_, length_};
  }

  void place_chunk(std::uint32_t item, std::size_t number) {
    DcpChunks& chunks = out_.items[item].chunks;
    require(number < chunks.size() && chunks.is_at(number, offsets_.span()) && !chunks.is_placed(number));
    next_[item] = static_cast<std::uint32_t>(number + 1);
    const std::uint32_t known = files_[file_];
    if (known != kNone) return chunks.set_place(number, known, at_, length_);
    chunks.set_place(number, DcpPlace{in_.text_of(file_), at_, length_});
  }

  void read_info() {
    begin(Class::info);
    attributes(bit(kPath) | bit(kOffset) | bit(kLength), [&](std::uint32_t name) {
      if (name == kPath) {
        file_ = in_.text();
        check_file();
      } else if (name == kOffset) {
        at_ = static_cast<std::uint64_t>(in_.count());
      } else if (name == kLength) {
        length_ = static_cast<std::uint64_t>(in_.count());
      } else {
        require(name == kTransforms);
        in_.expect('N');
      }
    });
  }

  /// Each name once.
  void check_file() {
    constexpr std::uint32_t kUnknown = kNone - 1;
    if (files_.size() <= file_) files_.resize(std::size_t{file_} + 1, kUnknown);
    if (files_[file_] != kUnknown) return;
    check_file_name(in_.text_of(file_));
    files_[file_] = DcpChunks::file_number(in_.text_of(file_)).value_or(kNone);
  }

  void read_storage_meta() {
    begin(Class::storage_meta);
    attributes(0, [&](std::uint32_t name) {
      if (name != kSaveId || in_.peek() == 'N') return skip();
      out_.save_id = in_.text_of(in_.text());
    });
  }

  /// Of a call that says nothing which is used here.
  void skip_arguments(std::size_t depth) {
    constexpr std::size_t kDeepest = 8;
    require(depth < kDeepest);
    const bool is_marked = in_.take('(');
    std::size_t members = 0;
    do {
      skip(depth + 1);
      ++members;
    } while (!ends_tuple(is_marked, members));
    in_.forget();
    in_.expect('R');
    in_.keep_plain();
  }

  /// None, a bool, a number, a text, an empty tuple or list, a path, or the call of another symbol. `depth` counts the
  /// calls around it.
  void skip(std::size_t depth = 0) {
    const std::uint8_t code = in_.peek();
    if (code == 'N' || code == 0x88 || code == 0x89 || code == ')') return in_.expect(code);
    if (code == 'K' || code == 'M' || code == 'J') return static_cast<void>(in_.count());
    if (in_.take(']')) return in_.forget();
    const PickleWord word = in_.word();
    if (word.kind == PickleWord::Kind::plain) return;
    if (word.is_text() && !is_module(in_.text_of(word.number))) return;
    const std::uint32_t symbol = word.is_symbol() ? word.number : in_.symbol_in(word.number);
    const PickleSymbol& named = in_.symbol_of(symbol);
    require(named.role < SymbolRole::foreign && class_of(named) == Class::none);
    skip_arguments(depth);
  }
  /// A text that is meant as one is then read as a whole.
  static bool is_module(std::string_view text) {
    return text.starts_with("pathlib") || text.starts_with("torch.distributed.") || text == "torch.serialization";
  }

  PickleStream in_;
  const OpenOptions& options_;
  DcpMetadata out_;
  std::vector<Class> classes_;        ///< of the stream's symbols
  std::vector<std::uint32_t> items_;  ///< by the stream's texts; kNone for other texts
  std::vector<std::uint32_t> files_;  ///< the same: DcpChunks::file_number(), kNone for names without
  std::vector<std::uint32_t> next_;   ///< of each item: the chunk that is placed next where nothing says it
  Coordinates offsets_;
  Coordinates sizes_;
  std::uint32_t file_ = 0;
  std::uint64_t at_ = 0;
  std::uint64_t length_ = 0;
};

}  // namespace

std::optional<DcpMetadata> stream_dcp_metadata(const ByteSource& file, const OpenOptions& options) {
  try {
    return MetadataStream(file, options).run();
  } catch (const Unusual&) {
    return std::nullopt;
  } catch (const core::Error& error) {
    if (error.code() == core::ErrorCode::io) throw;
    return std::nullopt;
  }
}

}  // namespace ckpt::detail
