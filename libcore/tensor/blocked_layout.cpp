#include "libcore/tensor/blocked_layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "libcore/backend/backend.h"
#include "libcore/backend/host_memory.h"
#include "libcore/backend/op_tables.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace blocked {

ByteBlock::ByteBlock(std::int64_t count)
    : data_(static_cast<float*>(host_allocate(static_cast<std::size_t>(count) * sizeof(float)))), count_(count) {}
ByteBlock::~ByteBlock() {
  host_free(data_, static_cast<std::size_t>(count_) * sizeof(float));
}

Bytes make_bytes(std::int64_t count) {
  return make_intrusive<ByteBlock>(count);
}

bool all_finite(const float* data, std::int64_t count) {
  // The sum of differences is 0 unless one is NaN: infinity - infinity, or NaN itself.
  constexpr std::int64_t kLanes = 16;
  float sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += data[i + lane] - data[i + lane];
  }
  for (; i < count; ++i) sums[0] += data[i] - data[i];
  return std::all_of(sums, sums + kLanes, [](float sum) { return sum == 0; });
}

namespace {
/// relu: the values of what was pooled, where its gradient is to be taken along, or null.
Bytes pool_grad(const PendingPoolGrad& pending, const ImageShape& shape, const ImageTable& table, const float* relu) {
  Bytes out = make_bytes(shape.count());
  table.max_pool_grad({pending.sizes, pending.output_grad->data(), pending.taps->data(), out->data(), relu});
  return out;
}
}  // namespace

}  // namespace blocked

bool blocked::PendingConv::finite() const {
  return image->finite && weight->finite &&
         std::all_of(bias.begin(), bias.end(), [](float value) { return std::isfinite(value); });
}

BlockedImage::BlockedImage(const ImageShape& shape, blocked::Value value, Backend& backend)
    : shape_(shape), value_(std::move(value)), backend_(backend), table_(*backend.ops().nn->image) {}

BlockedImage::~BlockedImage() {
  if (settled_ != nullptr) backend_.free(settled_, nbytes());
}

std::size_t BlockedImage::nbytes() const {
  return static_cast<std::size_t>(shape_.elements()) * sizeof(float);
}

blocked::Value BlockedImage::take() {
  const std::lock_guard lock(mutex_);
  if ((value_.conv || value_.pool_grad) && kernel_taken_) run_pending();
  kernel_taken_ = true;
  return value_;
}

blocked::Bytes BlockedImage::read() {
  const std::lock_guard lock(mutex_);
  if (value_.is_there()) run_pending();
  return value_.bytes;
}

bool BlockedImage::activate(ImageActivation activation) {
  const std::lock_guard lock(mutex_);
  if (!value_.is_there()) return false;
  if (value_.activation != ImageActivation::none) run_pending();
  value_.activation = activation;
  return true;
}

bool BlockedImage::add(blocked::Bytes addend) {
  const std::lock_guard lock(mutex_);
  if (!value_.is_there()) return false;
  if (value_.addend || value_.activation != ImageActivation::none) run_pending();
  value_.addend = std::move(addend);
  return true;
}

bool BlockedImage::assign(blocked::Value value) {
  const std::lock_guard lock(mutex_);
  if (!value_.is_there()) return false;
  value_ = std::move(value);
  kernel_taken_ = true;
  return true;
}

void* BlockedImage::settle() {
  const std::lock_guard lock(mutex_);
  if (settled_ != nullptr) return settled_;  // another thread was first
  run_pending();
  settled_ = backend_.allocate(nbytes());
  table_.from_blocks({shape_, value_.bytes->data(), static_cast<float*>(settled_)});
  value_ = {};
  return settled_;
}

/// Leaves bytes in place of a convolution, and of the steps that it did along.
void BlockedImage::run_conv() {
  const blocked::PendingConv& conv = *value_.conv;
  const bool clears_nan = value_.activation == ImageActivation::relu || value_.activation == ImageActivation::relu6;
  const bool finite = conv.finite() && (!value_.map || value_.map->finite) && (!value_.addend || value_.addend->finite);
  const bool mapped_each = value_.map && value_.map->shift.empty();
  ImageEpilogue epilogue{.activation = value_.activation};
  if (value_.map) epilogue.scale = value_.map->scale.data(), epilogue.shift = value_.map->shift.data();
  if (value_.addend) epilogue.addend = value_.addend->data();
  const float* bias = conv.bias.empty() ? nullptr : conv.bias.data();
  const bool along =
      (finite || !clears_nan) && !mapped_each && table_.conv_can_fuse(conv.sizes, bias != nullptr, epilogue);
  blocked::Bytes out = blocked::make_bytes(shape_.count());
  table_.conv({conv.sizes, conv.image->data(), nullptr, conv.weight->data(), bias, out->data(),
               along ? epilogue : ImageEpilogue()});
  out->finite = along ? finite : conv.finite();
  if (along) {
    value_ = {.bytes = std::move(out)};
  } else {
    value_.bytes = std::move(out);
    value_.conv = nullptr;
  }
}

void BlockedImage::run_pool_grad() {
  value_.bytes = blocked::pool_grad(*value_.pool_grad, shape_, table_, nullptr);
  value_.pool_grad = nullptr;
}

/// Puts the parts into one block of bytes, normalised on the way.
void BlockedImage::join() {
  blocked::Bytes out = blocked::make_bytes(shape_.count());
  out->finite = !value_.map || value_.map->finite;
  const std::int64_t width = shape_.plane * 16;
  const bool mapped = value_.map && !value_.map->shift.empty();
  std::int64_t first = 0;  // block
  for (const blocked::Bytes& part : *value_.parts) {
    const std::int64_t blocks = part->count() / (shape_.batch * width);
    out->finite = out->finite && part->finite;
    for (std::int64_t n = 0; n < shape_.batch; ++n) {
      const float* from = part->data() + n * blocks * width;
      float* to = out->data() + (n * shape_.blocks() + first) * width;
      ImagePass pass{{1, blocks * 16, shape_.plane}, from, nullptr, nullptr, false, nullptr, ImageActivation::none, to};
      if (mapped) {
        pass.scale = value_.map->scale.data() + first * 16;
        pass.shift = value_.map->shift.data() + first * 16;
        if (!value_.addend) pass.activation = value_.activation;
      }
      table_.pass(pass);
    }
    first += blocks;
  }
  value_.bytes = std::move(out);
  value_.parts = nullptr;
  if (!mapped) return;
  value_.map = nullptr;
  if (!value_.addend) value_.activation = ImageActivation::none;
}

void BlockedImage::run_pending() {
  if (value_.conv) run_conv();
  if (value_.pool_grad) run_pool_grad();
  if (value_.parts) join();
  if (value_.has_epilogue()) run_epilogue();
}

void BlockedImage::run_epilogue() {
  // Bytes that no other value shares may be overwritten: a new sharer could only come through this value and its lock.
  const bool alone = value_.bytes->use_count() == 1;
  const bool finite =
      value_.bytes->finite && (!value_.map || value_.map->finite) && (!value_.addend || value_.addend->finite);
  blocked::Bytes out = alone ? value_.bytes : blocked::make_bytes(shape_.count());
  ImagePass pass{shape_, value_.bytes->data(), nullptr, nullptr, false, nullptr, value_.activation, out->data()};
  if (value_.map) {
    pass.scale = value_.map->scale.data();
    pass.scale_each = value_.map->shift.empty();
    if (!pass.scale_each) pass.shift = value_.map->shift.data();
  }
  if (value_.addend) pass.addend = value_.addend->data();
  table_.pass(pass);
  out->finite = finite;
  value_ = {.bytes = std::move(out)};
}

namespace blocked {
namespace {

constexpr std::int64_t kBlock = 16;  // channels

/// The blocked image that x stands for, or null. It lives as long as the storage, settled or not.
BlockedImage* blocked_of(const Tensor& x) {
  if (!x.defined()) return nullptr;
  BlockedImage* image = x.storage()->blocked_image();
  if (image == nullptr || x.dim() < 2 || x.storage_offset() != 0 || !x.is_contiguous()) return nullptr;
  const bool whole = x.dtype() == DType::f32 && x.numel() == image->shape().elements();
  return whole && shape_of(x.sizes()) == image->shape() ? image : nullptr;
}

/// What x stands for; nothing where it is not blocked.
Value value_of(const Tensor& x) {
  BlockedImage* image = blocked_of(x);
  return image != nullptr ? image->take() : Value{};
}

Bytes bytes_of(const Tensor& x) {
  BlockedImage* image = blocked_of(x);
  return image != nullptr ? image->read() : Bytes{};
}

}  // namespace

ImageShape shape_of(const Shape& sizes) {
  std::int64_t plane = 1;
  for (std::size_t i = 2; i < sizes.size(); ++i) plane *= sizes[i];
  return {sizes[0], sizes[1], plane};
}

bool is_blocked(const Tensor& x) {
  return blocked_of(x) != nullptr;
}

bool may_be_blocked(const Tensor& x, const Shape& sizes) {
  if (detail::tracing.load(std::memory_order_relaxed) != 0 && detail::OpTrace::of_thread() != nullptr) return false;
  if (x.dtype() != DType::f32 || !x.device().is_cpu() || sizes.size() < 3) return false;
  const ImageShape shape = shape_of(sizes);
  const NnTable* nn = raw::backend_of(x).ops().nn;
  return nn != nullptr && nn->image != nullptr && shape.batch > 0 && lies_in_blocks(shape.channels) && shape.plane > 1;
}

const ImageTable& table_of(const Tensor& x) {
  return *raw::backend_of(x).ops().nn->image;
}

Image image(const Tensor& x) {
  if (Bytes bytes = bytes_of(x)) return {bytes->data(), bytes, {}};
  const Tensor dense = raw::contiguous(x);
  const auto* data = static_cast<const float*>(dense.raw_data());
  const ImageShape shape = shape_of(dense.sizes());
  if (!lies_in_blocks(shape.channels)) return {data, {}, dense};
  Bytes bytes = make_bytes(shape.count());
  table_of(x).to_blocks({shape, data, bytes->data()});
  return {bytes->data(), bytes, {}};
}

Bytes frozen_image(const Tensor& x) {
  if (Bytes bytes = bytes_of(x)) return bytes;
  const Tensor dense = raw::contiguous(x);
  const ImageShape shape = shape_of(dense.sizes());
  const bool in_blocks = lies_in_blocks(shape.channels);
  Bytes bytes = make_bytes(in_blocks ? shape.count() : shape.elements());
  bytes->finite = true;
  const std::int64_t from_each = shape.elements() / shape.batch, each = bytes->count() / shape.batch;
  for (std::int64_t n = 0; n < shape.batch; ++n) {  // one by one: each is looked at while it lies in a cache
    const float* from = static_cast<const float*>(dense.raw_data()) + n * from_each;
    float* to = bytes->data() + n * each;
    in_blocks ? table_of(x).to_blocks({{1, shape.channels, shape.plane}, from, to}) : void(std::copy_n(from, each, to));
    bytes->finite = bytes->finite && all_finite(to, each);
  }
  return bytes;
}

Tensor make(const Shape& sizes, Value value, Backend& backend) {
  auto image = std::make_unique<BlockedImage>(shape_of(sizes), std::move(value), backend);
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
  impl->storage = Storage::lazy(std::move(image), nbytes, backend);
  return Tensor(std::move(impl));
}

Tensor try_activate(const Tensor& x, ImageActivation activation) {
  Value value = value_of(x);
  if (value.activation != ImageActivation::none) value = Value{bytes_of(x)};
  if (!value.is_there()) return {};
  value.activation = activation;
  return make(x.sizes(), std::move(value), raw::backend_of(x));
}

Tensor try_relu_grad(const Tensor& grad, const Tensor& output) {
  if (!is_blocked(output) || grad.sizes() != output.sizes() || grad.dtype() != DType::f32) return {};
  if (&raw::backend_of(grad) != &raw::backend_of(output)) return {};
  const ImageShape shape = shape_of(grad.sizes());
  const Image y = image(output);
  if (const Value pending = value_of(grad); pending.pool_grad && !pending.has_epilogue()) {
    Bytes along = pool_grad(*pending.pool_grad, shape, table_of(output), y.data);
    return make(grad.sizes(), {.bytes = std::move(along)}, raw::backend_of(grad));
  }
  const Image g = image(grad);
  const std::int64_t count = shape.count();
  Bytes out = make_bytes(count);
  table_of(output).relu_grad({count, g.data, y.data, out->data()});
  return make(grad.sizes(), {.bytes = std::move(out)}, raw::backend_of(grad));
}

Tensor try_add(const Tensor& a, const Tensor& b) {
  if (!is_blocked(a) || !is_blocked(b) || a.sizes() != b.sizes()) return {};
  Value left = value_of(a), right = value_of(b);
  if (!left.is_there() || !right.is_there()) return {};
  const auto can_take = [](const Value& v) { return !v.addend && v.activation == ImageActivation::none; };
  const auto gain = [](const Value& v) { return v.conv ? 2 : v.map ? 1 : 0; };  // of doing it along
  const bool swap = can_take(right) && (!can_take(left) || gain(right) > gain(left));
  const Tensor& added = swap ? a : b;
  Value sum = swap ? std::move(right) : std::move(left);
  if (!can_take(sum)) {
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
  if (value.has_epilogue()) value = Value{bytes_of(x)};
  if (!value.is_there()) return {};
  value.map = std::move(map);
  return make(x.sizes(), std::move(value), raw::backend_of(x));
}

Tensor try_scale(const Tensor& x, const Tensor& scale) {
  if (!is_blocked(x) || scale.dtype() != DType::f32 || x.dim() != scale.dim() ||
      scale.storage()->blocked_image() != nullptr) {
    return {};
  }
  const ImageShape shape = shape_of(x.sizes());
  const bool fits = scale.size(0) == shape.batch && scale.size(1) == shape.channels &&
                    scale.numel() == shape.batch * shape.channels && &raw::backend_of(x) == &raw::backend_of(scale);
  if (!fits) return {};
  Value value{bytes_of(x)};
  if (!value.bytes) return {};
  const Tensor dense = raw::contiguous(scale);
  const auto* from = static_cast<const float*>(dense.raw_data());
  const std::int64_t padded = shape.blocks() * kBlock;
  auto map = std::make_shared<ChannelMap>();
  map->scale.resize(static_cast<std::size_t>(shape.batch * padded));
  for (std::int64_t n = 0; n < shape.batch; ++n) {
    std::copy_n(from + n * shape.channels, shape.channels, map->scale.data() + n * padded);
  }
  map->finite = all_finite(map->scale.data(), shape.batch * padded);
  value.map = std::move(map);
  return make(x.sizes(), std::move(value), raw::backend_of(x));
}

bool try_activate_in_place(const Tensor& x, ImageActivation activation) {
  BlockedImage* image = blocked_of(x);
  return image != nullptr && image->activate(activation);
}

bool try_add_in_place(const Tensor& x, const Tensor& added) {
  BlockedImage* image = blocked_of(x);
  if (image == nullptr || x.sizes() != added.sizes()) return false;
  Bytes addend = bytes_of(added);
  return addend && image->add(std::move(addend));
}

bool try_copy_into(const Tensor& x, const Tensor& from) {
  BlockedImage* image = blocked_of(x);
  if (image == nullptr || x.sizes() != from.sizes()) return false;
  Value value = value_of(from);
  return value.is_there() && image->assign(std::move(value));
}

Tensor try_clone(const Tensor& x) {
  Value value = value_of(x);
  if (!value.is_there()) return {};
  return make(x.sizes(), std::move(value), raw::backend_of(x));
}

Tensor try_cat(std::span<const Tensor> parts, std::int64_t dim) {
  const auto d = static_cast<std::size_t>(dim);
  std::vector<Bytes> bytes;
  Shape sizes = parts[0].sizes();
  if (d > 1) return {};
  sizes[d] = 0;
  for (const Tensor& part : parts) {
    const bool fits = is_blocked(part) && &raw::backend_of(part) == &raw::backend_of(parts[0]);
    if (!fits || part.dim() != parts[0].dim()) return {};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (i != d && part.sizes()[i] != sizes[i]) return {};  // the ordinary path says what is wrong
    }
    sizes[d] += part.sizes()[d];
    bytes.push_back(bytes_of(part));
    if (!bytes.back()) return {};
  }
  if (d == 1 && !std::all_of(parts.begin(), parts.end() - 1, [](const Tensor& t) { return t.size(1) % kBlock == 0; })) {
    return {};
  }
  if (!may_be_blocked(parts[0], sizes)) return {};
  if (d == 1) {
    auto joined = std::make_shared<const std::vector<Bytes>>(std::move(bytes));
    return make(sizes, {.parts = std::move(joined)}, raw::backend_of(parts[0]));
  }
  Bytes out = make_bytes(shape_of(sizes).count());
  out->finite = std::all_of(bytes.begin(), bytes.end(), [](const Bytes& part) { return part->finite; });
  float* to = out->data();
  for (const Bytes& part : bytes) to = std::copy_n(part->data(), part->count(), to);
  return make(sizes, {.bytes = std::move(out)}, raw::backend_of(parts[0]));
}

Tensor try_plane_mean(const Tensor& x) {
  const Bytes bytes = bytes_of(x);
  if (!bytes) return {};
  Tensor out = raw::make({x.size(0), x.size(1)}, DType::f32, raw::backend_of(x));
  table_of(x).mean({shape_of(x.sizes()), bytes->data(), static_cast<float*>(out.mutable_raw_data())});
  return out;
}

}  // namespace blocked
}  // namespace core
