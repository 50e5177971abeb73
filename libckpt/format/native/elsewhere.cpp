#include "libckpt/format/native/elsewhere.h"

#include <algorithm>
#include <optional>

#include "libckpt/format/native/native.h"
#include "libckpt/format/shared_tensors.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/file_source.h"
#include "libckpt/io/mentions.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace detail {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr std::uint64_t kLeastShared = 4096;  ///< bytes; less takes more room to find than to hold
constexpr std::uint64_t kPiece = 1ULL << 20;

/// "2 of its 7 payloads".
std::string part_of(const NativeIndex& index, std::size_t number) {
  auto there = [&](const Payload& payload) {
    return payload.codec == NativeCodec::elsewhere && payload.offset == number;
  };
  auto count = static_cast<std::uint64_t>(std::ranges::count_if(index.payloads, there));
  return core::format_count(count) + " of its " + core::format_count(index.payloads.size()) + " tensors";
}

std::shared_ptr<const OpenedNative> open_neighbour(const OpenedNative& file, std::size_t number,
                                                   const OpenOptions& options) {
  const std::string& name = file.index.files[number];
  fs::path path = file.folder / name;
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw Error(ErrorCode::corrupt, part_of(file.index, number) + " lie in " + core::quote(name) +
                                        ", which is not beside it; the two belong in one folder");
  }
  return core::with_context(path.string(), [&] {
    Input input = open_input(path, {.residency = options.residency});
    auto opened = open_native(input, options.limits);
    read_as(*input.file, options.io);
    return opened;
  });
}

bool same_bytes(const ByteSource& a, const ByteSource& b) {
  core::ByteVector left;
  core::ByteVector right;
  for (std::uint64_t at = 0; at < a.size(); at += kPiece) {
    left.resize(std::min(kPiece, a.size() - at));
    right.resize(left.size());
    a.read(at, left);
    b.read(at, right);
    if (left != right) return false;
  }
  return true;
}

/// The native files that may be shared from, each by its name in the folder.
class Earlier {
 public:
  struct Place {
    const OpenedNative* file = nullptr;
    std::string name;
    const Payload* payload = nullptr;
  };

  Earlier(const std::vector<fs::path>& files, const fs::path& target) : target_(target) {
    for (const fs::path& path : files) add(path, true);
  }

  std::optional<Place> find(const Hash128& hash, std::uint64_t size) const {
    for (const File& known : files_) {
      if (const Payload* payload = known.payloads.find(hash, size)) return Place{known.file.get(), known.name, payload};
    }
    return std::nullopt;
  }

  /// Bytes of a place; what was written there before is compared while it is read.
  static SourcePtr source_of(const Place& place) {
    auto file = std::make_shared<const PayloadFile>(PayloadFile{place.file->body, nullptr, nullptr});
    SourcePtr raw = open_payload(std::move(file), place.payload, make_chunk_cache());
    return checked(std::move(raw), place.payload->hash, {.subject = "the earlier tensor is damaged"});
  }

 private:
  struct File {
    std::string name;
    std::shared_ptr<const OpenedNative> file;
    PayloadsByContent payloads;
  };

  void add(const fs::path& path, bool with_needed) {
    std::string name = path.filename().string();
    bool is_known = std::ranges::any_of(files_, [&](const File& file) { return file.name == name; });
    std::error_code error;
    if (is_known || name == target_.filename() || !fs::equivalent(folder_of(path), folder_of(target_), error)) return;
    try {
      std::shared_ptr<const OpenedNative> file = open_native(open_input(path), Limits());
      files_.push_back({name, file, PayloadsByContent(file->index)});
      if (!with_needed) return;
      for (const std::string& needed : file->index.files) add(path.parent_path() / needed, false);
    } catch (const Error&) {
      return;  // what cannot be read is stored anew
    }
  }
  static fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

  fs::path target_;
  std::vector<File> files_;
};

std::optional<Earlier::Place> find_same(const Earlier& earlier, const ByteSource& source) {
  std::optional<Earlier::Place> place = earlier.find(hash128(source), source.size());
  if (!place) return std::nullopt;
  try {
    if (same_bytes(source, *Earlier::source_of(*place))) return place;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::io) throw;
    source.require_unchanged();  // the fault may be that of the source
  }
  return std::nullopt;
}

}  // namespace

PayloadsByContent::PayloadsByContent(const NativeIndex& index) {
  for (const Payload& payload : index.payloads) {
    if (payload.codec == NativeCodec::elsewhere) continue;
    payloads_.emplace(std::tuple(payload.hash.low, payload.hash.high, payload.size), &payload);
  }
}

const Payload* PayloadsByContent::find(const Hash128& hash, std::uint64_t size) const {
  auto at = payloads_.find({hash.low, hash.high, size});
  return at == payloads_.end() ? nullptr : at->second;
}

PayloadOpener::PayloadOpener(std::shared_ptr<const OpenedNative> file, const OpenOptions& options)
    : opened_(std::move(file)) {
  auto check = std::make_shared<const CheckOptions>(CheckOptions{.subject = "the tensor's bytes are damaged",
                                                                 .before_use = options.check_hashes,
                                                                 .lenient = options.lenient && !options.check_hashes});
  auto payloads_of = [&](const std::shared_ptr<const OpenedNative>& opened) {
    return std::make_shared<const PayloadFile>(PayloadFile{opened->body, opened, check});
  };
  file_ = payloads_of(opened_);
  for (std::size_t i = 0; i < opened_->index.files.size(); ++i) {
    std::shared_ptr<const OpenedNative> neighbour = open_neighbour(*opened_, i, options);
    neighbours_.push_back({payloads_of(neighbour), PayloadsByContent(neighbour->index)});
  }
}

SourcePtr PayloadOpener::open(const Payload& payload, const std::shared_ptr<ChunkCache>& cache) const {
  const auto [file, there] = place_of(payload);
  return open_payload(file, there, cache);
}

SourcePtr PayloadOpener::open_checked(const Payload& payload, const std::shared_ptr<ChunkCache>& cache,
                                      ObjectArena& arena) const {
  const auto [file, there] = place_of(payload);
  return detail::open_checked(file, there, cache, arena);
}

std::pair<PayloadFilePtr, const Payload*> PayloadOpener::place_of(const Payload& payload) const {
  if (payload.codec != NativeCodec::elsewhere) return {file_, &payload};
  const Neighbour& there = neighbours_.at(payload.offset);
  if (const Payload* found = there.payloads.find(payload.hash, payload.size)) return {there.file, found};
  throw Error(ErrorCode::corrupt, part_of(opened_->index, payload.offset) + " lay in " +
                                      core::quote(opened_->index.files[payload.offset]) +
                                      ", which holds others now; nothing else has their bytes");
}

void share_payloads(const std::vector<fs::path>& files, const fs::path& target, const PayloadPlan& plan,
                    unsigned threads, NativeIndex& index) {
  const Earlier earlier(files, target);
  std::vector<std::optional<Earlier::Place>> places(plan.payloads.size());
  parallel_for(places.size(), thread_count(threads), [&](std::size_t i) {
    const ByteSource& source = *plan.payloads[i].source;
    if (source.size() >= kLeastShared) places[i] = find_same(earlier, source);
  });
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) continue;
    auto at = std::ranges::find(index.files, places[i]->name);
    Payload shared;
    shared.offset = static_cast<std::uint64_t>(at - index.files.begin());
    if (at == index.files.end()) index.files.push_back(places[i]->name);
    shared.size = places[i]->payload->size;
    shared.hash = places[i]->payload->hash;
    shared.codec = NativeCodec::elsewhere;
    index.payloads[i] = shared;
  }
}

}  // namespace detail

Checkpoint sharing(const Checkpoint& checkpoint, std::vector<std::filesystem::path> files) {
  auto detail = std::make_shared<detail::SharingDetail>();
  detail->files = std::move(files);
  Checkpoint out = checkpoint;
  out.detail = std::move(detail);
  return out;
}

std::vector<NeededFile> needed_files(const std::filesystem::path& path) {
  std::vector<NeededFile> needed;
  try {
    Input input = open_input(path);
    if (!detail::detect_native(input)) return {};
    std::shared_ptr<const detail::OpenedNative> file = detail::open_index(input, Limits());
    for (const std::string& name : file->index.files) needed.push_back({name, 0, 0});
    for (const detail::Payload& payload : file->index.payloads) {
      if (payload.codec != detail::NativeCodec::elsewhere) continue;
      ++needed[payload.offset].tensors;
      needed[payload.offset].bytes += payload.size;
    }
  } catch (const core::Error& error) {
    if (error.code() == core::ErrorCode::io) throw;
    return {};
  }
  return needed;
}

}  // namespace ckpt
