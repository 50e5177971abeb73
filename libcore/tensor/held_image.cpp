#include "libcore/tensor/held_image.h"

#include <algorithm>
#include <utility>

#include "libcore/backend/backend.h"
#include "libcore/backend/host_memory.h"
#include "libcore/tensor/raw_ops.h"

namespace core {
namespace held {

ByteBlock::ByteBlock(std::int64_t count)
    : data_(static_cast<float*>(host_allocate(static_cast<std::size_t>(count) * sizeof(float)))), count_(count) {}
ByteBlock::~ByteBlock() {
  host_free(data_, static_cast<std::size_t>(count_) * sizeof(float));
}

Bytes make_bytes(std::int64_t count) {
  return make_intrusive<ByteBlock>(count);
}

}  // namespace held

held::Value HeldImage::peek() {
  const std::lock_guard lock(mutex_);
  return value_;
}

held::Bytes HeldImage::read() {
  const std::lock_guard lock(mutex_);
  if (value_.bytes) finish();
  return value_.bytes;
}

bool HeldImage::relu() {
  const std::lock_guard lock(mutex_);
  if (!value_.bytes) return false;
  value_.relu = true;
  return true;
}

bool HeldImage::add(held::Bytes addend) {
  const std::lock_guard lock(mutex_);
  if (!value_.bytes) return false;
  if (value_.addend || value_.relu) finish();
  value_.addend = std::move(addend);
  return true;
}

bool HeldImage::assign(held::Value value) {
  const std::lock_guard lock(mutex_);
  if (!value_.bytes) return false;
  value_ = std::move(value);
  return true;
}

void HeldImage::settle_into(float* to) {
  finish();
  table_.from_blocks({shape_, value_.bytes->data(), to});
  value_ = {};
}

/// Does what is pending.
void HeldImage::finish() {
  if (!value_.pending()) return;
  // Bytes that no other value shares may be overwritten: a new sharer could only come through this value and its lock.
  const bool alone = value_.bytes->use_count() == 1;
  held::Bytes out = alone ? value_.bytes : held::make_bytes(shape_.count());
  ImagePass pass{shape_, value_.bytes->data(), nullptr, nullptr, nullptr, value_.relu, out->data()};
  if (value_.map) pass.scale = value_.map->scale.data(), pass.shift = value_.map->shift.data();
  if (value_.addend) pass.addend = value_.addend->data();
  table_.pass(pass);
  value_ = {.bytes = std::move(out)};
}

namespace held {
namespace {

constexpr std::int64_t kBlock = 16;  // channels

/// The held image that x stands for, or null. It lives as long as the storage, settled or not.
HeldImage* held_of(const Tensor& x) {
  if (!x.defined()) return nullptr;
  HeldImage* image = x.storage()->held();
  if (image == nullptr || x.dim() < 2 || x.storage_offset() != 0 || !x.is_contiguous()) return nullptr;
  const bool whole = x.dtype() == DType::f32 && x.numel() == image->shape().count();
  return whole && shape_of(x.sizes()) == image->shape() ? image : nullptr;
}

/// What x stands for; no bytes where it is not held.
Value value_of(const Tensor& x) {
  HeldImage* image = held_of(x);
  return image != nullptr ? image->peek() : Value{};
}

Bytes bytes_of(const Tensor& x) {
  HeldImage* image = held_of(x);
  return image != nullptr ? image->read() : Bytes{};
}

}  // namespace

ImageShape shape_of(const Shape& sizes) {
  std::int64_t plane = 1;
  for (std::size_t i = 2; i < sizes.size(); ++i) plane *= sizes[i];
  return {sizes[0], sizes[1], plane};
}

bool is_held(const Tensor& x) {
  return held_of(x) != nullptr;
}

bool may_hold(const Tensor& x, const Shape& sizes) {
  if (x.dtype() != DType::f32 || !x.device().is_cpu() || sizes.size() < 3) return false;
  const ImageShape shape = shape_of(sizes);
  const NnTable* nn = raw::backend_of(x).ops().nn;
  return nn != nullptr && nn->image != nullptr && shape.batch > 0 && shape.channels > 0 &&
         shape.channels % kBlock == 0 && shape.plane > 1;
}

const ImageTable& table_of(const Tensor& x) {
  return *raw::backend_of(x).ops().nn->image;
}

Image image(const Tensor& x) {
  if (Bytes bytes = bytes_of(x)) return {bytes->data(), bytes, {}};
  const Tensor dense = raw::contiguous(x);
  const auto* data = static_cast<const float*>(dense.raw_data());
  const ImageShape shape = shape_of(dense.sizes());
  if (shape.channels % kBlock != 0) return {data, {}, dense};
  Bytes bytes = make_bytes(shape.count());
  table_of(x).to_blocks({shape, data, bytes->data()});
  return {bytes->data(), bytes, {}};
}

Tensor make(const Shape& sizes, Value value, Backend& backend) {
  auto held_image = std::make_unique<HeldImage>(shape_of(sizes), std::move(value), *backend.ops().nn->image);
  auto impl = make_intrusive<TensorImpl>();
  impl->sizes = sizes;
  impl->strides.resize(sizes.size());
  impl->numel = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    impl->strides[i] = impl->numel;
    impl->numel *= sizes[i];
  }
  impl->dtype = DType::f32;
  const auto nbytes = static_cast<std::size_t>(impl->numel) * sizeof(float);
  impl->storage = Storage::hold(held_image.release(), nbytes, backend);
  return Tensor(std::move(impl));
}

Tensor try_relu(const Tensor& x) {
  Value value = value_of(x);
  if (!value.bytes) return {};
  value.relu = true;
  return make(x.sizes(), std::move(value), raw::backend_of(x));
}

Tensor try_relu_grad(const Tensor& grad, const Tensor& output) {
  if (!is_held(output) || grad.sizes() != output.sizes() || grad.dtype() != DType::f32) return {};
  if (&raw::backend_of(grad) != &raw::backend_of(output)) return {};
  const Image g = image(grad), y = image(output);
  Bytes out = make_bytes(grad.numel());
  table_of(output).relu_grad({grad.numel(), g.data, y.data, out->data()});
  return make(grad.sizes(), {.bytes = std::move(out)}, raw::backend_of(grad));
}

Tensor try_add(const Tensor& a, const Tensor& b) {
  if (!is_held(a) || !is_held(b) || a.sizes() != b.sizes()) return {};
  Value left = value_of(a), right = value_of(b);
  if (!left.bytes || !right.bytes) return {};
  const bool left_can_take = !left.addend && !left.relu, right_can_take = !right.addend && !right.relu;
  const bool swap = right_can_take && (!left_can_take || (right.map && !left.map));
  const Tensor& added = swap ? a : b;
  Value sum = swap ? std::move(right) : std::move(left);
  if (swap ? !right_can_take : !left_can_take) {
    sum = Value{bytes_of(a)};
    if (!sum.bytes) return {};
  }
  left = right = {};
  sum.addend = bytes_of(added);
  if (!sum.addend) return {};
  return make(a.sizes(), std::move(sum), raw::backend_of(a));
}

Tensor try_map(const Tensor& x, std::shared_ptr<const ChannelMap> map) {
  Value value = value_of(x);
  if (!value.bytes) return {};
  if (value.pending()) value = Value{bytes_of(x)};
  if (!value.bytes) return {};
  value.map = std::move(map);
  return make(x.sizes(), std::move(value), raw::backend_of(x));
}

bool try_relu_in_place(const Tensor& x) {
  HeldImage* image = held_of(x);
  return image != nullptr && image->relu();
}

bool try_add_in_place(const Tensor& x, const Tensor& added) {
  HeldImage* image = held_of(x);
  if (image == nullptr || x.sizes() != added.sizes()) return false;
  Bytes addend = bytes_of(added);
  return addend && image->add(std::move(addend));
}

bool try_copy_into(const Tensor& x, const Tensor& from) {
  HeldImage* image = held_of(x);
  if (image == nullptr || x.sizes() != from.sizes()) return false;
  Value value = value_of(from);
  return value.bytes && image->assign(std::move(value));
}

Tensor try_clone(const Tensor& x) {
  Value value = value_of(x);
  if (!value.bytes) return {};
  return make(x.sizes(), std::move(value), raw::backend_of(x));
}

Tensor try_cat(std::span<const Tensor> parts, std::int64_t dim) {
  const auto d = static_cast<std::size_t>(dim);
  std::vector<Bytes> bytes;
  Shape sizes = parts[0].sizes();
  if (d > 1) return {};
  sizes[d] = 0;
  for (const Tensor& part : parts) {
    const bool fits = is_held(part) && &raw::backend_of(part) == &raw::backend_of(parts[0]);
    if (!fits || part.dim() != parts[0].dim()) return {};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (i != d && part.sizes()[i] != sizes[i]) return {};  // the ordinary path says what is wrong
    }
    sizes[d] += part.sizes()[d];
    bytes.push_back(bytes_of(part));
    if (!bytes.back()) return {};
  }
  Bytes out = make_bytes(sizes.numel());
  const std::int64_t rows = d == 0 ? 1 : sizes[0];
  float* to = out->data();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const Bytes& part : bytes) {
      const std::int64_t count = part->count() / rows;
      to = std::copy_n(part->data() + row * count, count, to);
    }
  }
  return make(sizes, {.bytes = std::move(out)}, raw::backend_of(parts[0]));
}

Tensor try_plane_mean(const Tensor& x) {
  const Bytes bytes = bytes_of(x);
  if (!bytes) return {};
  Tensor out = raw::make({x.size(0), x.size(1)}, DType::f32, raw::backend_of(x));
  table_of(x).mean({shape_of(x.sizes()), bytes->data(), static_cast<float*>(out.mutable_raw_data())});
  return out;
}

}  // namespace held
}  // namespace core
