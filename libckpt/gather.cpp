#include "libckpt/gather.h"

#include <algorithm>

#include "libckpt/io/checked_source.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kLargestPiece = 16 << 20;
constexpr std::uint64_t kPieces = 8;  ///< of as many tensors as threads may work on at once
constexpr std::uint64_t kWindowBytes = 1 << 20;
constexpr std::uint64_t kLeastWindow = 4096;
constexpr std::uint64_t kWorthReading = 64;  ///< bytes read for one that is needed
constexpr std::uint64_t kOwnRead = 512;      ///< a run of bytes that is worth a read of a file of its own

/// Of a transposed matrix each piece reads the whole storage, so the larger the better.
std::uint64_t piece_bytes() {
  return std::clamp(most_kept() / kPieces, kWindowBytes, kLargestPiece);
}

/// Bytes of a storage around an address that mostly moves forward.
class Window {
 public:
  /// `end`: nothing at or past it will be asked for. `needed`: how many bytes will be asked for in all; of a few that
  /// lie far apart, what lies between them is not read.
  Window(const ByteSource& storage, std::uint64_t end, std::uint64_t needed)
      : storage_(storage),
        memory_(storage.memory()),
        end_(end),
        ahead_(std::clamp(needed * kWorthReading, kLeastWindow, kWindowBytes)) {}

  const std::byte* at(std::uint64_t address, std::uint64_t width) {
    if (!memory_.empty()) return memory_.data() + address;
    if (address < begin_ || address + width > begin_ + buffer_.size()) fill(address, width);
    return buffer_.data() + (address - begin_);
  }

 private:
  void fill(std::uint64_t address, std::uint64_t width) {
    begin_ = address;
    buffer_.resize(std::min(std::max(ahead_, width), end_ - address));
    storage_.read(address, buffer_);
  }

  const ByteSource& storage_;
  Bytes memory_;
  std::uint64_t end_;
  std::uint64_t ahead_;
  std::uint64_t begin_ = 0;
  core::ByteVector buffer_;
};

void copy_element(std::byte* to, const std::byte* from, std::uint64_t width) {
  switch (width) {
    case 1:
      *to = *from;
      break;
    case 2:
      std::memcpy(to, from, 2);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    default:
      std::memcpy(to, from, width);
  }
}

std::uint64_t last_address(std::uint64_t start, std::uint64_t width, const std::vector<StridedDim>& dims) {
  for (const StridedDim& dim : dims) start += (dim.size - 1) * dim.stride;
  return start + width;
}

/// One element `count` times.
void repeat(std::byte* to, const std::byte* from, std::uint64_t width, std::uint64_t count) {
  copy_element(to, from, width);
  for (std::uint64_t done = 1; done < count;) {
    std::uint64_t part = std::min(done, count - done);
    std::memcpy(to + done * width, to, part * width);
    done += part;
  }
}

/// The innermost of `dims` element by element, for one position of the outer ones.
void copy_row(Window& window, const StridedDim& dim, std::uint64_t address, std::uint64_t width, std::byte* to) {
  if (dim.stride == width && dim.step == width && dim.size * width <= kWindowBytes) {
    std::memcpy(to, window.at(address, dim.size * width), dim.size * width);
    return;
  }
  if (dim.stride == 0 && dim.step == width) return repeat(to, window.at(address, width), width, dim.size);
  for (std::uint64_t i = 0; i < dim.size; ++i, address += dim.stride, to += dim.step) {
    copy_element(to, window.at(address, width), width);
  }
}

/// All elements of a box, in the order of their addresses.
void copy_box(Window& window, std::vector<StridedDim> dims, std::uint64_t address, std::uint64_t width,
              std::byte* out) {
  std::stable_sort(dims.begin(), dims.end(), [](const auto& a, const auto& b) { return a.stride > b.stride; });
  StridedDim inner = dims.back();
  dims.pop_back();
  std::vector<std::uint64_t> index(dims.size(), 0);
  while (true) {
    copy_row(window, inner, address, width, out);
    std::size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1].size) {
      index[d - 1] = 0;
      address -= (dims[d - 1].size - 1) * dims[d - 1].stride;
      out -= (dims[d - 1].size - 1) * dims[d - 1].step;
      --d;
    }
    if (d == 0) return;
    address += dims[d - 1].stride;
    out += dims[d - 1].step;
  }
}

}  // namespace

GatherSource::GatherSource(Layout layout) : layout_(std::move(layout)) {
  std::erase_if(layout_.dims, [](const StridedDim& dim) { return dim.size == 1; });
  if (layout_.dims.empty()) layout_.dims.push_back({1, layout_.width, 0});
  std::uint64_t step = layout_.width;
  for (auto dim = layout_.dims.rbegin(); dim != layout_.dims.rend(); ++dim) {
    dim->step = step;
    step *= dim->size;
  }
  const std::uint64_t most = piece_bytes();
  while (split_ + 1 < layout_.dims.size() && layout_.dims[split_].step > most) ++split_;
  const StridedDim& rows = layout_.dims[split_];
  rows_ = std::clamp<std::uint64_t>(most / rows.step, 1, rows.size);
  pieces_per_row_ = (rows.size + rows_ - 1) / rows_;
}

/// Long runs that lie apart in a file: columns of a matrix that ranks share, of which each wants its own and no other.
/// Where a checksum is to be compared all is read anyway.
bool GatherSource::is_in_runs() const {
  const StridedDim& inner = layout_.dims.back();
  const std::uint64_t run = inner.size * layout_.width;
  bool apart = layout_.dims.size() > 1 && inner.stride == layout_.width && run >= kOwnRead;
  for (std::size_t d = 0; apart && d + 1 < layout_.dims.size(); ++d) {
    apart = layout_.dims[d].stride > run + run / 64;
  }
  if (!apart) return false;
  layout_.storage->read(0, {});  // what is opened when it is read is open now
  return layout_.storage->file_range().has_value() && !awaits_check(*layout_.storage);
}

void GatherSource::read_runs(std::uint64_t offset, MutableBytes out) const {
  const std::uint64_t run = layout_.dims.back().size * layout_.width;
  while (!out.empty()) {
    std::uint64_t rest = offset / run;
    std::uint64_t address = layout_.start + offset % run;
    for (std::size_t d = layout_.dims.size() - 1; d-- > 0; rest /= layout_.dims[d].size) {
      address += rest % layout_.dims[d].size * layout_.dims[d].stride;
    }
    const std::uint64_t part = std::min<std::uint64_t>(run - offset % run, out.size());
    layout_.storage->read(address, out.first(part));
    offset += part;
    out = out.subspan(part);
  }
}

GatherSource::~GatherSource() {
  forget();
}

void GatherSource::read(std::uint64_t offset, MutableBytes out) const {
  if (offset > layout_.size || out.size() > layout_.size - offset) {
    throw core::Error(core::ErrorCode::corrupt, "a read past the end of a tensor");
  }
  if (is_in_runs()) return read_runs(offset, out);
  const StridedDim& dim = layout_.dims[split_];
  std::uint64_t block = dim.step * dim.size;  // bytes of all pieces along the split dimension
  while (!out.empty()) {
    std::uint64_t row = (offset % block) / dim.step / rows_;
    std::uint64_t piece = offset / block * pieces_per_row_ + row;
    std::uint64_t begin = offset / block * block + row * rows_ * dim.step;
    std::uint64_t length = std::min(rows_, dim.size - row * rows_) * dim.step;
    std::uint64_t part = std::min<std::uint64_t>(begin + length - offset, out.size());
    bool whole_rows = (offset - begin) % dim.step == 0 && part % dim.step == 0;
    if (part == length || (whole_rows && lies_close(part / dim.step, part))) {
      gather_rows(piece, (offset - begin) / dim.step, out.first(part));
    } else {
      copy_from_cache(piece, offset - begin, out.first(part));
    }
    offset += part;
    out = out.subspan(part);
  }
}

/// True when so many rows come from hardly more of the storage than they are long: nothing is won by taking more.
bool GatherSource::lies_close(std::uint64_t rows, std::uint64_t length) const {
  std::vector<StridedDim> box(layout_.dims.begin() + static_cast<std::ptrdiff_t>(split_), layout_.dims.end());
  box.front().size = rows;
  return last_address(0, layout_.width, box) <= 4 * length + (64 << 10);
}

void GatherSource::gather_rows(std::uint64_t piece, std::uint64_t first, MutableBytes out) const {
  std::uint64_t row = piece % pieces_per_row_ * rows_ + first;
  std::uint64_t outer = piece / pieces_per_row_;
  std::uint64_t address = layout_.start + row * layout_.dims[split_].stride;
  for (std::size_t d = split_; d-- > 0; outer /= layout_.dims[d].size) {
    address += outer % layout_.dims[d].size * layout_.dims[d].stride;
  }
  std::vector<StridedDim> box(layout_.dims.begin() + static_cast<std::ptrdiff_t>(split_), layout_.dims.end());
  box.front().size = out.size() / layout_.dims[split_].step;
  Window window(*layout_.storage, last_address(address, layout_.width, box), out.size());
  copy_box(window, std::move(box), address, layout_.width, out.data());
}

void GatherSource::copy_from_cache(std::uint64_t piece, std::uint64_t begin, MutableBytes out) const {
  std::lock_guard lock(mutex_);
  if (cached_ != piece) {
    const StridedDim& dim = layout_.dims[split_];
    std::uint64_t rows = std::min(rows_, dim.size - piece % pieces_per_row_ * rows_);
    cached_ = UINT64_MAX;
    forget();                     // what it is gathered from may keep something, too, and would come back to this lock
    cache_ = core::ByteVector();  // or a short piece would take the room of a long one
    core::ByteVector gathered(rows * dim.step);
    gather_rows(piece, 0, gathered);
    cache_ = std::move(gathered);  // not before: after an error nobody would let it go
    cached_ = piece;
    served_ = 0;
  }
  std::memcpy(out.data(), cache_.data() + begin, out.size());
  served_ += out.size();
  if (served_ < cache_.size()) return used(cache_.size());
  cached_ = UINT64_MAX;
  cache_ = core::ByteVector();
  forget();
}

bool GatherSource::let_go() const {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  cached_ = UINT64_MAX;
  cache_ = core::ByteVector();
  return true;
}

}  // namespace ckpt::detail
