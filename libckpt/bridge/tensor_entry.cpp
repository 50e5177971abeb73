#include "libckpt/bridge/tensor_entry.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libckpt/bridge/detail/storage_source.h"
#include "libckpt/bridge/module_state.h"
#include "libcore/backend/backend.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/factory.h"

namespace ckpt {
namespace {

using core::Device;
using core::Tensor;

/// Flips sign bits where the file says that values are the conjugate or the negative of their bytes.
void resolve_bits(const Entry& entry, MutableBytes bytes) {
  bool is_complex = core::is_complex(entry.dtype);
  std::size_t element = static_cast<std::size_t>(core::bit_width(entry.dtype)) / 8;
  std::size_t part = is_complex ? element / 2 : element;
  for (std::size_t at = 0; at + part <= bytes.size(); at += part) {
    bool imaginary = is_complex && (at / part) % 2 == 1;
    if (entry.negative != (entry.conjugate && imaginary)) bytes[at + part - 1] ^= std::byte{0x80};
  }
}

void resolve_bits_of(const void* entry, MutableBytes bytes) {
  resolve_bits(*static_cast<const Entry*>(entry), bytes);
}

bool has_bits(const Entry& entry) {
  return entry.conjugate || entry.negative;
}

/// The first `count` bytes of `source`.
void read_bytes(const SourcePtr& source, const Tensor& tensor, std::uint64_t count, DeviceRead rest,
                DeviceReads& reads) {
  rest.source = source;
  rest.device = &tensor.storage()->backend();
  rest.to = tensor.mutable_raw_data();
  rest.bytes = count;
  reads.add(std::move(rest));
}

/// Where an entry's bytes come from: its storage, or itself where it has none.
const void* place_of(const Entry& entry) {
  return entry.view ? static_cast<const void*>(entry.view->storage.get()) : &entry;
}

std::uint64_t elements_of(const ByteSource& bytes, core::DType dtype) {
  std::uint64_t bits = static_cast<std::uint64_t>(core::bit_width(dtype));
  return bytes.size() * 8 / bits;
}

/// The runtime has no type for them; their bytes as numbers would be wrong weights.
void require_values(const Entry& entry) {
  if (!entry.blocks) return;
  throw core::Error(core::ErrorCode::unsupported, "quantised blocks of type " + entry.blocks->name +
                                                      " cannot become a tensor; ckpt::dequantize() gives their values");
}

}  // namespace

/// Makes tensors of the host side by side in large blocks, whose huge pages cost less to touch for the first time than
/// what is read into them.
class HostBlocks {
 public:
  static constexpr std::uint64_t kBlock = 32ULL << 20;  ///< for which core asks for huge pages

  /// `expected`: rounded bytes of all tensors that will be made.
  explicit HostBlocks(std::uint64_t expected) : left_(expected) {}
  ~HostBlocks() {
    if (block_ != nullptr) core::SharedBlock::release(block_);
  }
  HostBlocks(const HostBlocks&) = delete;
  HostBlocks& operator=(const HostBlocks&) = delete;

  static bool takes(const Entry& entry) { return entry.byte_size() > 0 && entry.byte_size() < kBlock; }

  Tensor make(const core::Shape& shape, core::DType dtype, std::uint64_t bytes) {
    const std::size_t size = core::SharedBlock::rounded(static_cast<std::size_t>(bytes));
    if (block_ == nullptr || size > block_->bytes() - used_) next_block(size);
    std::byte* data = block_->data() + std::exchange(used_, used_ + size);
    left_ -= std::min<std::uint64_t>(left_, size);
    block_->retain();
    core::Storage storage = core::Storage::borrow(data, static_cast<std::size_t>(bytes), core::backend_for(Device()),
                                                  core::SharedBlock::release, block_);
    return core::from_storage(std::move(storage), dtype, shape, core::contiguous_strides(shape), 0);
  }

 private:
  void next_block(std::uint64_t size) {
    const auto bytes = static_cast<std::size_t>(left_ >= kBlock ? kBlock : std::max(size, left_));
    core::SharedBlock* next = core::SharedBlock::make(core::backend_for(Device()), bytes);
    if (block_ != nullptr) core::SharedBlock::release(block_);
    block_ = next;
    used_ = 0;
  }

  std::uint64_t left_;
  core::SharedBlock* block_ = nullptr;
  std::size_t used_ = 0;
};

std::shared_ptr<const Storage> EntryMaker::storage_of(const Tensor& tensor) {
  auto& slot = storages_[tensor.storage().id()];
  if (!slot) {
    auto storage = std::make_shared<Storage>();
    storage->dtype = tensor.dtype();
    storage->bytes = snapshot_ != nullptr ? snapshot_->of(tensor.storage()) : live_source(tensor.storage());
    storage->location = tensor.device().str();
    slot = std::move(storage);
  }
  return slot;
}

EntryPtr EntryMaker::entry(const Tensor& tensor) {
  auto entry = std::make_shared<Entry>();
  entry->dtype = tensor.dtype();
  entry->shape = tensor.sizes();
  entry->location = tensor.device().str();
  entry->requires_grad = tensor.requires_grad();
  if (tensor.is_meta()) return entry;
  bool seen = storages_.contains(tensor.storage().id());
  entry->view = View{storage_of(tensor), tensor.storage_offset(), tensor.strides()};
  if (seen) {
    auto alias = std::find_if(made_.begin(), made_.end(), [&](const EntryPtr& e) { return same_view(*e, *entry); });
    if (alias != made_.end()) entry->bytes = (*alias)->bytes;
  }
  if (!entry->bytes) entry->bytes = gather(*entry->view, entry->dtype, entry->shape);
  made_.push_back(entry);
  return entry;
}

void read_into(const Entry& entry, const Tensor& tensor, const std::string& key, DeviceReads& reads) {
  require_values(entry);
  if (!entry.bytes || tensor.numel() == 0) return;
  DeviceRead rest;
  if (!key.empty()) rest.key = core::quote(key);
  if (has_bits(entry)) {
    rest.fix = resolve_bits_of;
    rest.context = &entry;
  }
  read_bytes(entry.bytes, tensor, entry.byte_size(), std::move(rest), reads);
}

Device device_for(const std::string& key, const std::string& tag, const MapLocation& map_location) {
  try {
    return map_location.device(tag);
  } catch (core::Error& error) {
    const int count = core::cuda::device_count();
    error.add_context(core::quote(key) + " (tagged " + core::quote(tag) + ", " + std::to_string(count) +
                      (count == 1 ? " CUDA device here)" : " CUDA devices here)"));
    throw;
  }
}

void place(std::vector<PlacedEntry>& entries, const MapLocation& map_location) {
  std::unordered_map<const void*, Device> devices;  // a function is asked once a storage
  for (PlacedEntry& placed : entries) {
    const Entry& entry = *placed.entry;
    auto found = devices.find(place_of(entry));
    if (found == devices.end()) {
      found = devices.emplace(place_of(entry), device_for(placed.key, entry.location, map_location)).first;
    }
    placed.device = found->second;
  }
}

TensorMaker::TensorMaker(const std::vector<PlacedEntry>& all, const DeviceRing& ring, unsigned threads)
    : reads_(ring, threads) {
  std::map<int, std::uint64_t> small_bytes;
  std::uint64_t host_bytes = 0;
  for (const PlacedEntry& placed : all) {
    const Entry& entry = *placed.entry;
    placed_.emplace(&entry, &placed);
    ++uses_[storage_identity(entry)];
    const Device device = devices_.emplace(place_of(entry), placed.device).first->second;
    if (device == Device() && HostBlocks::takes(entry)) host_bytes += core::SharedBlock::rounded(entry.byte_size());
    if (!device.is_cuda() || core::backend_for(device).is_host_memory()) continue;
    const bool is_small = core::TensorPacker::is_small(entry.byte_size());
    small_bytes[device.index()] += is_small ? core::SharedBlock::rounded(entry.byte_size()) : 0;
  }
  for (const auto& [index, bytes] : small_bytes) {
    core::Backend& backend = core::backend_for(Device(core::DeviceType::cuda, index));
    small_[index] = std::make_unique<core::TensorPacker>(backend, bytes);
  }
  if (host_bytes >= HostBlocks::kBlock) host_ = std::make_unique<HostBlocks>(host_bytes);
}

TensorMaker::~TensorMaker() = default;

/// An uninitialised tensor for the entry.
Tensor TensorMaker::make(const Entry& entry, Device device) {
  const auto packer = device.is_cuda() ? small_.find(device.index()) : small_.end();
  if (packer != small_.end()) return packer->second->make(entry.shape, entry.dtype);
  if (host_ != nullptr && device == Device() && HostBlocks::takes(entry)) {
    return host_->make(entry.shape, entry.dtype, entry.byte_size());
  }
  return core::empty(entry.shape, {.dtype = entry.dtype, .device = device});
}

Tensor TensorMaker::shared_view(const Entry& entry, const PlacedEntry& placed) {
  const SourcePtr& bytes = entry.view->storage->bytes;
  Tensor& whole = whole_[entry.view->storage.get()];
  if (!whole.defined()) {
    auto count = static_cast<std::int64_t>(elements_of(*bytes, entry.dtype));
    const Device device = devices_.at(place_of(entry));
    whole = core::empty({count}, {.dtype = entry.dtype, .device = device});
    DeviceRead rest;
    rest.key = core::quote(placed.key);
    if (count > 0) read_bytes(bytes, whole, whole.storage().nbytes(), std::move(rest), reads_);
  }
  return whole.as_strided(entry.shape, entry.view->strides, entry.view->offset);
}

Tensor TensorMaker::tensor(const Entry& entry) {
  require_values(entry);
  const PlacedEntry& placed = *placed_.at(&entry);
  const Device device = devices_.at(place_of(entry));
  if (!entry.bytes || device.is_meta())
    return core::empty(entry.shape, {.dtype = entry.dtype, .device = Device("meta")});
  if (entry.view && !has_bits(entry)) {
    bool shared = uses_[storage_identity(entry)] > 1;
    bool strided = entry.numel() > 1 && entry.view->strides != core::contiguous_strides(entry.shape);
    auto found = whole_.find(entry.view->storage.get());
    bool same_dtype = found == whole_.end() || found->second.dtype() == entry.dtype;
    if ((shared || strided) && same_dtype) return shared_view(entry, placed);
  }
  bool tied = !entry.view && !has_bits(entry) && uses_[storage_identity(entry)] > 1;
  if (tied && whole_.contains(entry.bytes.get())) return whole_.at(entry.bytes.get());
  Tensor tensor = make(entry, device);
  read_into(entry, tensor, placed.key, reads_);
  if (tied) whole_[entry.bytes.get()] = tensor;
  return tensor;
}

EntryPtr to_entry(const Tensor& tensor) {
  return EntryMaker().entry(tensor);
}

Tensor to_tensor(const Entry& entry, Device device) {
  const EntryPtr borrowed(std::shared_ptr<const void>(), &entry);
  const std::vector<PlacedEntry> all{{"", borrowed, MapLocation(device).device(entry.location)}};
  TensorMaker maker(all);
  Tensor tensor = maker.tensor(entry);
  maker.finish();
  return tensor;
}

}  // namespace ckpt
