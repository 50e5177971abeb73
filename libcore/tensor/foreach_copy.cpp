#include "libcore/tensor/foreach_copy.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/transfer_ring.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {

// --- TensorPacker

TensorPacker::~TensorPacker() {
  if (block_ != nullptr) SharedBlock::release(block_);
}

/// In block_, which gets one owner more.
void* TensorPacker::place(std::size_t bytes) {
  const std::size_t size = SharedBlock::rounded(bytes);
  if (block_ == nullptr || used_ + size > block_->bytes()) {
    const std::uint64_t wanted = std::max<std::uint64_t>(expected_, size);
    SharedBlock* next =
        SharedBlock::make(backend_, static_cast<std::size_t>(std::min<std::uint64_t>(wanted, kBlockBytes)));
    if (block_ != nullptr) SharedBlock::release(block_);
    block_ = next;
    used_ = 0;
  }
  std::byte* data = block_->data() + used_;
  used_ += size;
  expected_ -= std::min<std::uint64_t>(expected_, size);
  block_->retain();
  return data;
}

Tensor TensorPacker::make(const Shape& sizes, DType dtype) {
  const std::uint64_t bytes = byte_size(dtype, static_cast<std::uint64_t>(sizes.numel())).value_or(0);
  if (!is_small(bytes)) return raw::make(sizes, dtype, backend_);
  void* data = place(static_cast<std::size_t>(bytes));
  Storage storage = Storage::borrow(data, static_cast<std::size_t>(bytes), backend_, SharedBlock::release, block_);
  return from_storage(std::move(storage), dtype, sizes, contiguous_strides(sizes), 0);
}

namespace {

std::size_t copied_bytes_of(const Tensor& dense) {
  return static_cast<std::size_t>(byte_size(dense.dtype(), static_cast<std::uint64_t>(dense.numel())).value_or(0));
}

/// One run of bytes between a tensor in host memory and one on a device.
struct Run {
  std::byte* host;
  std::byte* device;
  std::size_t bytes;
};

/// What one slot holds.
struct Load {
  std::vector<Run> runs;
  std::vector<std::size_t> at;  // of each run in the slot
  std::size_t used = 0;
};

/// Runs in order, as many in a slot as fit; what is larger goes in pieces.
std::vector<Load> fill_slots(const std::vector<Run>& runs, std::size_t slot_bytes) {
  std::vector<Load> loads;
  for (Run left : runs) {
    while (left.bytes > 0) {
      const bool fits =
          !loads.empty() && loads.back().used + std::min(left.bytes, TensorPacker::kSmallBytes) <= slot_bytes;
      if (!fits) loads.emplace_back();
      Load& load = loads.back();
      const std::size_t part = std::min(left.bytes, slot_bytes - load.used);
      load.runs.push_back({left.host, left.device, part});
      load.at.push_back(load.used);
      load.used = std::min(SharedBlock::rounded(load.used + part), slot_bytes);
      left = {left.host + part, left.device + part, left.bytes - part};
    }
  }
  return loads;
}

/// Neighbours of one block lie in the slot as they do there, and travel as one.
std::vector<TransferRing::Part> parts_of(const Load& load) {
  std::vector<TransferRing::Part> parts;
  for (std::size_t i = 0; i < load.runs.size(); ++i) {
    const Run& run = load.runs[i];
    if (!parts.empty()) {
      TransferRing::Part& last = parts.back();
      const std::size_t gap = load.at[i] - last.at;
      if (static_cast<std::byte*>(last.device) + gap == run.device && in_one_block(last.device, run.device)) {
        last.bytes = gap + run.bytes;
        continue;
      }
    }
    parts.push_back({run.device, load.at[i], run.bytes});
  }
  return parts;
}

/// Between the slot and the tensors on the host, by as many threads as a kernel may have.
template <class Copy>
void copy_runs(const Load& load, Copy copy) {
  constexpr std::size_t kStep = std::size_t{128} << 10;
  const auto steps = static_cast<std::int64_t>((load.used + kStep - 1) / kStep);
  parallel_for(steps, 4, [&](std::int64_t first, std::int64_t last) {
    const std::size_t begin = static_cast<std::size_t>(first) * kStep, end = static_cast<std::size_t>(last) * kStep;
    auto i = static_cast<std::size_t>(std::upper_bound(load.at.begin(), load.at.end(), begin) - load.at.begin()) - 1;
    for (; i < load.runs.size() && load.at[i] < end; ++i) {
      const std::size_t from = std::max(begin, load.at[i]);
      const std::size_t to = std::min(end, load.at[i] + load.runs[i].bytes);
      if (from < to) copy(load.runs[i].host + (from - load.at[i]), from, to - from);
    }
  });
}

void send_all(Backend& device, const std::vector<Run>& runs) {
  TransferRing ring(device);
  const std::vector<Load> loads = fill_slots(runs, ring.slot_bytes());
  for (std::size_t i = 0; i < loads.size(); ++i) {
    std::byte* slot = ring.slot(i % ring.slots());
    copy_runs(loads[i], [&](const std::byte* host, std::size_t at, std::size_t n) { std::memcpy(slot + at, host, n); });
    ring.send(i % ring.slots(), parts_of(loads[i]));
  }
  ring.finish();
}

void receive_all(Backend& device, const std::vector<Run>& runs) {
  TransferRing ring(device);
  const std::vector<Load> loads = fill_slots(runs, ring.slot_bytes());
  std::size_t started = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    for (; started < loads.size() && started < i + ring.slots(); ++started) {
      ring.receive(started % ring.slots(), parts_of(loads[started]));
    }
    const std::byte* slot = ring.slot(i % ring.slots());
    copy_runs(loads[i], [&](std::byte* host, std::size_t at, std::size_t n) { std::memcpy(host, slot + at, n); });
  }
}

bool is_opaque(const Backend& backend) {
  return backend.has_memory() && !backend.is_host_memory();
}

/// Plain bytes between the host and a device that the host cannot touch, without a history to record.
bool goes_along(const Tensor& x, const Backend& target) {
  if (!x.defined() || x.is_sparse() || !x.is_contiguous() || x.numel() == 0) return false;
  if (x.requires_grad() && is_grad_enabled()) return false;
  const Backend& source = raw::backend_of(x);
  return (is_opaque(target) && source.device().is_cpu()) || (target.device().is_cpu() && is_opaque(source));
}

/// Bytes that the small ones of these need in shared blocks.
std::uint64_t small_bytes(std::span<const Tensor> tensors, const std::vector<std::size_t>& which) {
  std::uint64_t sum = 0;
  for (std::size_t i : which) {
    const std::size_t bytes = copied_bytes_of(tensors[i]);
    if (TensorPacker::is_small(bytes)) sum += SharedBlock::rounded(bytes);
  }
  return sum;
}

std::byte* address_of(const Tensor& x) {
  return static_cast<std::byte*>(const_cast<void*>(x.raw_data()));
}

}  // namespace

std::vector<Tensor> to_device(std::span<const Tensor> tensors, Device device) {
  Backend& target = backend_for(device);
  std::vector<Tensor> out(tensors.size());
  std::vector<std::size_t> together;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (goes_along(tensors[i], target)) {
      together.push_back(i);
    } else if (tensors[i].defined()) {
      out[i] = tensors[i].to(device);
    }
  }
  // Small ones first, so that they are neighbours.
  std::stable_partition(together.begin(), together.end(),
                        [&](std::size_t i) { return TensorPacker::is_small(copied_bytes_of(tensors[i])); });
  TensorPacker packer(target, small_bytes(tensors, together));
  std::map<Backend*, std::vector<Run>> received;
  std::vector<Run> sent;
  for (std::size_t i : together) {
    const Tensor& from = tensors[i];
    out[i] =
        is_opaque(target) ? packer.make(from.sizes(), from.dtype()) : raw::make(from.sizes(), from.dtype(), target);
    if (is_opaque(target)) {
      sent.push_back({address_of(from), address_of(out[i]), copied_bytes_of(from)});
    } else {
      received[&raw::backend_of(from)].push_back({address_of(out[i]), address_of(from), copied_bytes_of(from)});
    }
  }
  if (!sent.empty()) send_all(target, sent);
  for (const auto& [source, runs] : received) receive_all(*source, runs);
  return out;
}

}  // namespace core
