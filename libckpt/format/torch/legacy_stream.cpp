#include "libckpt/format/torch/legacy_stream.h"

#include <array>

#include "libckpt/format/torch/pickle_extent.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

/// 0x1950a86a20f9469cfc6c, little-endian.
constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::size_t kMagicPickle = 64;  ///< longer than the pickle of the magic number in any protocol
constexpr std::int64_t kProtocol = 1001;

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::corrupt, what);
}

/// One pickle of the stream. `position` moves behind it.
PickleGraph read_next(const ByteSource& file, std::uint64_t& position, const OpenOptions& options) {
  PickleExtent extent = find_pickle_end(file, position, options.limits);
  core::ByteVector bytes(extent.length);
  file.read(position, bytes);
  PickleGraph graph =
      read_pickle(std::move(bytes), options.limits, PickleIds::legacy);  // names symbols before an error
  if (!extent.complete || graph.consumed() != extent.length) corrupt(extent.problem);
  position += extent.length;
  return graph;
}

std::vector<std::string> read_keys(const PickleGraph& graph) {
  if (graph.kind(graph.root()) != NodeKind::list) {
    corrupt("the list of storages is " + describe_node(graph, graph.root()));
  }
  std::vector<std::string> keys;
  for (NodeId id : graph.children(graph.root())) {
    bool is_name = graph.kind(id) == NodeKind::text || graph.kind(id) == NodeKind::bytes;
    if (!is_name) corrupt("the list of storages holds " + describe_node(graph, id));
    keys.emplace_back(graph.text(id));
  }
  return keys;
}

std::int64_t count_of(const StorageRequest& request) {
  return static_cast<std::int64_t>(request.bytes * 8 / static_cast<std::uint64_t>(core::bit_width(request.dtype)));
}

/// Several empty storages may have one key: PyTorch takes the address of their memory, and they have none.
std::string empty_key(const StorageRequest& request) {
  return request.key + "\n" + std::string(core::name(request.dtype)) + "\n" + request.location;
}

std::shared_ptr<const Storage> make_storage(const StorageRequest& request, SourcePtr bytes) {
  auto storage = std::make_shared<Storage>();
  storage->dtype = request.untyped ? core::DType::u8 : request.dtype;
  storage->location = request.location;
  storage->bytes = std::move(bytes);
  return storage;
}

void check_agreement(const StorageRequest& first, const StorageRequest& other) {
  std::string subject = "the storage " + quote(first.key);
  if (first.location != other.location) {
    throw Error(ErrorCode::unsupported,
                subject + " is said to be on " + quote(first.location) + " and on " + quote(other.location));
  }
  bool same_type = first.untyped == other.untyped && (first.untyped || first.dtype == other.dtype);
  if (same_type && first.bytes == other.bytes) return;
  throw Error(ErrorCode::unsupported, subject + " is used as " + core::format_size(first.bytes) + " of " +
                                          std::string(core::name(first.dtype)) + " and as " +
                                          core::format_size(other.bytes) + " of " +
                                          std::string(core::name(other.dtype)));
}

std::int64_t read_count(const ByteSource& file, std::uint64_t position, const std::string& key) {
  std::array<std::byte, sizeof(std::int64_t)> raw{};
  if (file.size() - position < raw.size()) {
    corrupt("the file is cut off: it ends at byte " + core::format_count(file.size()) + ", before the storage " +
            quote(key));
  }
  file.read(position, raw);
  return core::load_le<std::int64_t>(raw.data());
}

}  // namespace

bool is_legacy_stream(core::Bytes head) {
  if (head.empty()) return false;
  auto first = std::to_integer<unsigned char>(head[0]);
  if (first != 0x80 && first != 'L' && first != 0x8a && first != 0x8b) return false;
  try {
    head = head.first(std::min(head.size(), kMagicPickle));
    PickleGraph graph = read_pickle({head.begin(), head.end()}, {});
    bool literal = graph.kind(graph.root()) == NodeKind::big_integer;
    return literal && core::as_text(graph.bytes(graph.root())) == kMagic;
  } catch (const Error&) {
    constexpr std::string_view kUsual = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    return head.size() > 3 && kUsual.starts_with(core::as_text(head));  // cut off inside the number
  }
}

LegacyStream read_legacy_pickles(const SourcePtr& file, const OpenOptions& options, SymbolCheck check) {
  std::uint64_t position = 0;
  auto next = [&] { return read_next(*file, position, options); };
  core::with_context("the magic number", next);
  PickleGraph protocol = core::with_context("the protocol", next);
  const PickleNode& number = protocol.node(protocol.root());
  if (number.kind != NodeKind::integer || number.integer != kProtocol) {
    throw Error(ErrorCode::unsupported,
                "the stream is of protocol " + describe_node(protocol, protocol.root()) + " where 1001 is known");
  }
  PickleGraph machine = core::with_context("the description of the machine", next);
  if (machine.kind(machine.root()) != NodeKind::dict) {
    corrupt("the description of the machine is " + describe_node(machine, machine.root()) + ", no dict");
  }
  PickleGraph object = next();
  if (check == SymbolCheck::refuse) require_known_symbols(object, options);
  std::vector<std::string> keys = read_keys(core::with_context("the list of storages", next));
  return {std::move(object), std::move(keys), position};
}

LegacyStorages::LegacyStorages(SourcePtr file, const LegacyStream& stream, const OpenOptions& options)
    : file_(std::move(file)) {
  collect(stream.object);
  lay_out(stream, options);
}

/// Every persistent id counts, also of an object that the pickle drops again: its storage is in the stream.
void LegacyStorages::collect(const PickleGraph& object) {
  for (NodeId id = 0; id < object.size(); ++id) {
    if (object.kind(id) != NodeKind::persistent) continue;
    StorageRequest request = read_storage_id(object, id);
    auto [at, fresh] = ranges_.try_emplace(request.key, Range{request, 0, nullptr});
    const StorageRequest& first = at->second.request;
    bool both_empty = first.bytes == 0 && request.bytes == 0;
    if (!fresh && !both_empty) check_agreement(first, request);
  }
}

void LegacyStorages::lay_out(const LegacyStream& stream, const OpenOptions& options) {
  std::uint64_t position = stream.data_offset;
  for (const std::string& key : stream.keys) {
    auto found = ranges_.find(key);
    if (found == ranges_.end()) corrupt("the stream has a storage " + quote(key) + " that no tensor uses");
    Range& range = found->second;
    if (range.offset != 0) corrupt("the storage " + quote(key) + " is listed twice");
    std::int64_t count = read_count(*file_, position, key);
    position += sizeof count;
    if (count != count_of(range.request)) {
      corrupt("the storage " + quote(key) + " says that it has " + std::to_string(count) +
              " elements where its tensors say " + std::to_string(count_of(range.request)));
    }
    if (range.request.bytes > file_->size() - position) {
      corrupt("the file is cut off: the storage " + quote(key) + " has " + core::format_size(file_->size() - position) +
              " of " + core::format_size(range.request.bytes));
    }
    range.offset = position;
    range.storage = make_storage(range.request, slice(file_, position, range.request.bytes));
    position += range.request.bytes;
  }
  for (const auto& [key, range] : ranges_) {
    if (range.offset == 0) corrupt("the storage " + quote(key) + " is not in the stream");
  }
  std::uint64_t rest = file_->size() - position;
  if (rest == 0) return;
  std::string text = core::format_size(rest) + " after the last storage belong to nothing";
  if (!options.lenient) corrupt(text);
  if (options.report != nullptr) options.report->relaxations.push_back(text);
}

std::shared_ptr<const Storage> LegacyStorages::provide(const StorageRequest& request) {
  auto found = ranges_.find(request.key);
  if (found == ranges_.end()) corrupt("the storage " + quote(request.key) + " is not in the stream");
  if (request.bytes > 0) return found->second.storage;
  auto [at, fresh] = empty_.try_emplace(empty_key(request));
  if (fresh) at->second = make_storage(request, memory_source({}));
  return at->second;
}

Value read_legacy_object(const SourcePtr& file, const OpenOptions& options) {
  LegacyStream stream = read_legacy_pickles(file, options);
  LegacyStorages storages(file, stream, options);
  return to_value(stream.object, storages, options);
}

}  // namespace ckpt
