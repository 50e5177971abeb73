#include "libckpt/bridge/tensor_entry.h"

#include <algorithm>
#include <cstring>

#include "libckpt/bridge/module_state.h"
#include "libcore/backend/backend.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"

namespace ckpt {
namespace {

using core::Device;
using core::Tensor;

constexpr std::size_t kStagingBytes = 16ULL << 20;

/// The memory of a tensor, wherever it is, as bytes.
class MemoryOfTensor final : public ByteSource {
 public:
  explicit MemoryOfTensor(core::Storage storage) : storage_(std::move(storage)) {}

  std::uint64_t size() const override { return storage_.nbytes(); }
  Bytes memory() const override {
    if (!storage_->backend().is_host_memory()) return {};
    return {static_cast<const std::byte*>(storage_.data()), storage_.nbytes()};
  }
  void read(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size() || out.size() > size() - offset) {
      throw core::Error(core::ErrorCode::internal, "read past the end of a tensor's memory");
    }
    if (out.empty()) return;
    const auto* from = static_cast<const std::byte*>(storage_.data()) + offset;
    storage_->backend().copy_to_host(out.data(), from, out.size());
  }

 private:
  core::Storage storage_;
};

/// Copies the first `count` bytes of `source` to the device address `to`, straight where the host can write it.
void read_to_device(const ByteSource& source, core::Backend& backend, void* to, std::uint64_t count) {
  auto* target = static_cast<std::byte*>(to);
  if (backend.is_host_memory()) {
    source.read(0, {target, static_cast<std::size_t>(count)});
    return;
  }
  core::ByteVector staging(static_cast<std::size_t>(std::min<std::uint64_t>(count, kStagingBytes)));
  for (std::uint64_t done = 0; done < count;) {
    auto step = static_cast<std::size_t>(std::min<std::uint64_t>(staging.size(), count - done));
    source.read(done, {staging.data(), step});
    backend.copy_from_host(target + done, staging.data(), step);
    done += step;
  }
}

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

std::uint64_t elements_of(const ByteSource& bytes, core::DType dtype) {
  std::uint64_t bits = static_cast<std::uint64_t>(core::bit_width(dtype));
  return bytes.size() * 8 / bits;
}

/// The runtime has no type for them; their bytes as numbers would be wrong weights.
void require_values(const Entry& entry) {
  if (!entry.blocks) return;
  throw core::Error(core::ErrorCode::unsupported,
                    "quantised blocks of type " + entry.blocks->name + " cannot become a tensor");
}

}  // namespace

std::shared_ptr<const Storage> EntryMaker::storage_of(const Tensor& tensor) {
  auto& slot = storages_[tensor.storage().id()];
  if (!slot) {
    auto storage = std::make_shared<Storage>();
    storage->dtype = tensor.dtype();
    storage->bytes = std::make_shared<MemoryOfTensor>(tensor.storage());
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

void read_into(const Entry& entry, const Tensor& tensor) {
  require_values(entry);
  if (!entry.bytes || tensor.numel() == 0) return;
  core::Backend& backend = core::backend_for(tensor.device());
  void* to = tensor.mutable_raw_data();
  if (!entry.conjugate && !entry.negative) {
    read_to_device(*entry.bytes, backend, to, entry.byte_size());
    return;
  }
  core::ByteVector bytes = read_all(*entry.bytes);
  resolve_bits(entry, bytes);
  backend.copy_from_host(to, bytes.data(), bytes.size());
}

TensorMaker::TensorMaker(const std::vector<EntryPtr>& all, const MapLocation& map_location)
    : map_location_(map_location) {
  for (const EntryPtr& entry : all) ++uses_[storage_identity(*entry)];
}

Device TensorMaker::device_of(const Entry& entry) {
  if (!entry.view) return map_location_.device(entry.location);
  const void* storage = entry.view->storage.get();
  auto found = devices_.find(storage);
  if (found == devices_.end()) found = devices_.emplace(storage, map_location_.device(entry.location)).first;
  return found->second;
}

Tensor TensorMaker::shared_view(const Entry& entry, Device device) {
  const ByteSource& bytes = *entry.view->storage->bytes;
  Tensor& whole = whole_[entry.view->storage.get()];
  if (!whole.defined()) {
    auto count = static_cast<std::int64_t>(elements_of(bytes, entry.dtype));
    whole = core::empty({count}, {.dtype = entry.dtype, .device = device});
    core::Backend& backend = core::backend_for(device);
    if (count > 0) {
      read_to_device(bytes, backend, whole.mutable_raw_data(), whole.storage().nbytes());
    }
  }
  return whole.as_strided(entry.shape, entry.view->strides, entry.view->offset);
}

Tensor TensorMaker::tensor(const Entry& entry) {
  require_values(entry);
  Device device = device_of(entry);
  if (!entry.bytes || device.is_meta())
    return core::empty(entry.shape, {.dtype = entry.dtype, .device = Device("meta")});
  bool plain_bits = !entry.conjugate && !entry.negative;
  if (entry.view && plain_bits) {
    bool shared = uses_[storage_identity(entry)] > 1;
    bool strided = entry.numel() > 1 && entry.view->strides != core::contiguous_strides(entry.shape);
    auto found = whole_.find(entry.view->storage.get());
    bool same_dtype = found == whole_.end() || found->second.dtype() == entry.dtype;
    if ((shared || strided) && same_dtype) return shared_view(entry, device);
  }
  bool tied = !entry.view && plain_bits && uses_[storage_identity(entry)] > 1;
  if (tied && whole_.contains(entry.bytes.get())) return whole_.at(entry.bytes.get());
  Tensor tensor = core::empty(entry.shape, {.dtype = entry.dtype, .device = device});
  read_into(entry, tensor);
  if (tied) whole_[entry.bytes.get()] = tensor;
  return tensor;
}

EntryPtr to_entry(const Tensor& tensor) {
  return EntryMaker().entry(tensor);
}

Tensor to_tensor(const Entry& entry, Device device) {
  MapLocation to(device);
  std::vector<EntryPtr> all;
  return TensorMaker(all, to).tensor(entry);
}

}  // namespace ckpt
