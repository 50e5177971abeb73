#include "libckpt/remote/remote_file.h"

#include <algorithm>

#include "libckpt/io/parallel_io.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kFront = 256 << 10;      // bytes of the first request
constexpr std::uint64_t kEnd = 64 << 10;         // least that is fetched, above all at the end, where zip files begin
constexpr std::uint64_t kPiece = 8 << 20;        // of a request
constexpr std::uint64_t kMergedGap = 256 << 10;  // a gap that is read over, not asked around
constexpr std::size_t kMostReaders = 16;
constexpr std::uint64_t kMostWhole = 16 << 20;

/// Statuses of an address that a redirect led to and that holds for some time only.
bool may_have_expired(int status) {
  return status == 401 || status == 403 || status == 404 || status == 410;
}

}  // namespace

/// Notes that a part is being fetched, as long as it lives.
class RemoteFile::OnTheWay {
 public:
  OnTheWay(const RemoteFile& file, Part part) : file_(file), part_(part) {
    file_.shared_->on_the_way.take(part_.length);
  }
  ~OnTheWay() {
    file_.shared_->on_the_way.give_back(part_.length);
    {
      std::lock_guard lock(file_.mutex_);
      std::erase_if(file_.on_the_way_, [&](const Part& part) { return part.offset == part_.offset; });
    }
    file_.arrived_.notify_all();
  }
  OnTheWay(const OnTheWay&) = delete;
  OnTheWay& operator=(const OnTheWay&) = delete;

 private:
  const RemoteFile& file_;
  Part part_;
};

RemoteFile::RemoteFile(std::shared_ptr<HttpClient> client, std::shared_ptr<RemoteShared> shared, Url url)
    : client_(std::move(client)), shared_(std::move(shared)), url_(std::move(url)) {
  try {
    open_front();
  } catch (const HttpError& error) {
    constexpr int kNoSuchRange = 416;
    bool empty = error.status() == kNoSuchRange;  // the first byte is not there
    if (!empty && (error.status() != 200 || !open_whole())) throw;
  }
}

void RemoteFile::open_front() {
  core::ByteVector front(kFront);
  HttpAnswer answer = client_->get_part(url_, 0, front, std::nullopt);
  front.resize(answer.received);
  version_ = answer.version;
  commit_ = answer.commit;
  located_ = answer.located;
  readers_.push_back({front.size(), front.size()});
  shared_->cache.put(this, 0, std::move(front));
}

/// Some servers send parts of large files and small ones as a whole. An index is read whole anyway.
bool RemoteFile::open_whole() {
  std::string_view path = std::string_view(url_.target).substr(0, url_.target.find('?'));
  if (!path.ends_with(".json")) return false;
  std::string text = client_->get_text(url_, kMostWhole).text;
  whole_.assign(core::as_bytes(text).begin(), core::as_bytes(text).end());
  version_.size = whole_.size();
  return true;
}

RemoteFile::~RemoteFile() {
  shared_->cache.drop(this);
}

void RemoteFile::read(std::uint64_t offset, MutableBytes out) const {
  if (offset > size() || out.size() > size() - offset) {
    throw Error(ErrorCode::corrupt, "bytes " + std::to_string(offset) + " to " + std::to_string(offset) + "+" +
                                        std::to_string(out.size()) + " are past the end: only " +
                                        std::to_string(size()) + " bytes are there");
  }
  if (!whole_.empty()) {
    std::copy_n(whole_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return;
  }
  while (!out.empty()) {
    std::uint64_t copied = shared_->cache.copy(this, offset, out);
    offset += copied;
    out = out.subspan(copied);
    if (copied > 0) continue;
    if (out.size() >= kPiece) return fetch(offset, out);
    fetch_into_cache(offset, out.size());
  }
}

/// What is fetched when `wanted` bytes at `offset` are read. REQUIRES: the lock.
RemoteFile::Part RemoteFile::plan(std::uint64_t offset, std::uint64_t wanted) const {
  auto known = std::ranges::find_if(
      readers_, [&](const Reader& reader) { return offset >= reader.end && offset - reader.end < kMergedGap; });
  Reader reader = known == readers_.end() ? Reader() : *known;
  if (known != readers_.end()) readers_.erase(known);
  std::uint64_t most = std::max(client_->options().max_memory / 2, kEnd);
  Part part{offset, std::min(std::max({wanted, kEnd, reader.bytes}), std::max(most, wanted))};
  bool at_end = reader.bytes == 0 && size() - offset < kEnd;
  if (at_end) part.offset = size() - std::min(size(), kEnd);
  part.length = std::min(part.length + (offset - part.offset), size() - part.offset);
  std::uint64_t next = shared_->cache.next_block(this, offset, part.end());
  for (const Part& other : on_the_way_) {
    if (other.offset > offset) next = std::min(next, other.offset);
  }
  part.length = next - part.offset;
  readers_.insert(readers_.begin(), {part.end(), reader.bytes + part.length});
  if (readers_.size() > kMostReaders) readers_.pop_back();
  return part;
}

bool RemoteFile::comes_already(std::uint64_t offset) const {
  return std::ranges::any_of(on_the_way_,
                             [&](const Part& part) { return offset >= part.offset && offset < part.end(); });
}

void RemoteFile::fetch_into_cache(std::uint64_t offset, std::uint64_t wanted) const {
  Part part;
  {
    std::unique_lock lock(mutex_);
    if (comes_already(offset)) {
      arrived_.wait(lock, [&] { return !comes_already(offset); });
      return;
    }
    part = plan(offset, wanted);
    on_the_way_.push_back(part);
  }
  OnTheWay fetching(*this, part);
  core::ByteVector bytes(part.length);
  fetch(part.offset, bytes);
  shared_->cache.put(this, part.offset, std::move(bytes));
}

void RemoteFile::fetch(std::uint64_t offset, MutableBytes out) const {
  std::size_t pieces = (out.size() + kPiece - 1) / kPiece;
  auto one = [&](std::size_t i) {
    std::uint64_t begin = i * kPiece;
    fetch_piece(offset + begin, out.subspan(begin, std::min<std::uint64_t>(kPiece, out.size() - begin)));
  };
  if (pieces == 1) return one(0);
  parallel_for(pieces, std::max(1U, client_->options().in_flight), one);
}

void RemoteFile::fetch_piece(std::uint64_t offset, MutableBytes out) const {
  Url from;
  {
    std::lock_guard lock(mutex_);
    from = located_;
  }
  HttpAnswer answer;
  try {
    answer = client_->get_part(from, offset, out, version_);
  } catch (const HttpError& error) {
    if (!may_have_expired(error.status()) || from.text() == url_.text()) throw;
    answer = client_->get_part(url_, offset, out, version_);
  }
  if (answer.received != out.size()) {
    throw Error(ErrorCode::io, "the server sent " + core::format_count(answer.received) + " of " +
                                   core::format_count(out.size()) + " bytes");
  }
  std::lock_guard lock(mutex_);
  located_ = answer.located;
}

}  // namespace ckpt::detail
