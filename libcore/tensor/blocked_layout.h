#pragma once
// Images in blocked layout: blocks of sixteen channels. The result of a convolution stays in the order in which the
// next convolution is fastest (image_table.h), until somebody asks for its bytes; StorageImpl::data(), through which
// every access goes, then puts the values into their ordinary order. So sizes, strides, views, aliasing and values are
// always those of an ordinary dense tensor, and an operation that knows nothing of this is right without doing
// anything.
//
// An operation opts in by asking for the image instead of the bytes:
//   if (blocked::is_blocked(x)) {
//     const blocked::Image in = blocked::image(x);                      // bytes in blocks; does what is pending
//     blocked::Bytes out = blocked::make_bytes(count);                  // write to out->data() ...
//     return blocked::make(sizes, {.bytes = out}, raw::backend_of(x)); // ... then share it: never written again
//   }
// Bytes that are shared are never written, so nobody who reads them needs to know what becomes of the tensor. A value
// may have work pending: activation(bytes * scale + shift + addend). Normalisation, addition and activations of blocked
// images only note what is to be done; it is done in one pass when the values are needed, in place when nobody else
// shares the bytes. Where no gradients are wanted the convolution that makes the bytes is pending too, and does the
// rest along with it.
//
// Blocked are only dense f32 tensors (N, C, ...) on the CPU, whole storages, whose channels fill blocks of 16 well
// enough (lies_in_blocks) and whose planes have more than one pixel. Thread safety: all functions; several threads may
// read one tensor.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "libcore/backend/image_table.h"
#include "libcore/tensor/lazy_bytes.h"
#include "libcore/tensor/tensor.h"

namespace core {

namespace blocked {

/// Memory of one image batch, shared by all values that are made of it.
class ByteBlock : public RefCounted {
 public:
  explicit ByteBlock(std::int64_t count);
  ~ByteBlock();
  float* data() const { return data_; }
  std::int64_t count() const { return count_; }

  /// No value is infinite or NaN, as far as known. Set before the block is shared.
  bool finite = false;

 private:
  float* data_;
  std::int64_t count_;
};
using Bytes = IntrusivePtr<ByteBlock>;
Bytes make_bytes(std::int64_t count);
/// Whether none is infinite or NaN.
bool all_finite(const float* data, std::int64_t count);

/// One scale and one shift per channel, missing ones included; or a scale for each image and no shift.
struct ChannelMap {
  std::vector<float> scale, shift;
  bool finite = false;
};

/// A convolution that has not been run: everything it reads, none of which changes any more.
struct PendingConv {
  Conv2dSizes sizes;
  Bytes image;   ///< in blocks where its channels lie so
  Bytes weight;  ///< packed
  std::vector<float> bias;

  bool finite() const;
};

/// The gradient of a pooling that has not been computed, so that relu's can be taken along.
struct PendingPoolGrad {
  Pool2dSizes sizes;
  Bytes output_grad;
  std::shared_ptr<const std::vector<std::uint8_t>> taps;
};

/// activation(bytes * scale + shift + addend); map and addend may be null. Instead of bytes there may be a convolution,
/// the gradient of a pooling, or the parts that lie one behind the other along the channels.
struct Value {
  Bytes bytes = {};
  std::shared_ptr<const PendingConv> conv = nullptr;
  std::shared_ptr<const PendingPoolGrad> pool_grad = nullptr;
  std::shared_ptr<const std::vector<Bytes>> parts = nullptr;
  std::shared_ptr<const ChannelMap> map = nullptr;
  Bytes addend = {};
  ImageActivation activation = ImageActivation::none;

  bool is_there() const { return bytes || conv || pool_grad || parts; }
  bool has_epilogue() const { return map || addend || activation != ImageActivation::none; }
  bool pending() const { return conv || pool_grad || parts || has_epilogue(); }
};

}  // namespace blocked

/// What a storage in blocked layout has instead of bytes in ordinary order. For StorageImpl and core::blocked alone.
class BlockedImage final : public LazyBytes {
 public:
  BlockedImage(const ImageShape& shape, blocked::Value value, Backend& backend);
  ~BlockedImage() override;

  const ImageShape& shape() const { return shape_; }
  /// As it is, with what is pending; nothing when it was settled meanwhile. A pending kernel is given away once: it
  /// would be run for everyone who has it.
  blocked::Value take();
  /// With nothing pending.
  blocked::Bytes read();
  /// Becomes its activation, or its sum with others; false when it was settled meanwhile. Whoever took bytes before
  /// keeps them.
  bool activate(ImageActivation activation);
  bool add(blocked::Bytes addend);
  bool assign(blocked::Value value);
  /// Puts the values into ordinary order and lets go of the image.
  void* settle() override;
  BlockedImage* blocked_image() override { return this; }

 private:
  void run_pending();
  void run_conv();
  void run_pool_grad();
  void join();
  void run_epilogue();
  std::size_t nbytes() const;

  ImageShape shape_;
  blocked::Value value_;
  bool kernel_taken_ = false;
  Backend& backend_;
  const ImageTable& table_;
  void* settled_ = nullptr;  // the bytes in ordinary order
  std::mutex mutex_;
};

namespace blocked {

/// Whether x stands for a whole blocked image, as (N, C, ...).
bool is_blocked(const Tensor& x);
/// Whether a result of these sizes on x's device may be blocked.
bool may_be_blocked(const Tensor& x, const Shape& sizes);
ImageShape shape_of(const Shape& sizes);
const ImageTable& table_of(const Tensor& x);

/// Values of x in blocks, be it blocked or not; in ordinary order where its channels do not lie in blocks. Valid as
/// long as this lives.
struct Image {
  const float* data = nullptr;
  Bytes bytes;   // what keeps them alive: the image ...
  Tensor plain;  // ... or the tensor itself
};
/// REQUIRES: x is a dense f32 tensor (N, C, ...) on the CPU.
Image image(const Tensor& x);
/// The same as bytes that nobody writes.
Bytes frozen_image(const Tensor& x);

/// A tensor in blocked layout.
Tensor make(const Shape& sizes, Value value, Backend& backend);

/// Each of these gives an undefined tensor where x is not blocked (any more) or the case is not theirs.
Tensor try_activate(const Tensor& x, ImageActivation activation);
Tensor try_relu_grad(const Tensor& grad, const Tensor& output);
Tensor try_add(const Tensor& a, const Tensor& b);
/// x * scale + shift for each channel.
Tensor try_map(const Tensor& x, std::shared_ptr<const ChannelMap> map);
/// x * scale, where scale has sizes (N, C, 1, ...).
Tensor try_scale(const Tensor& x, const Tensor& scale);
/// Into x itself; false where that is not blocked or the case is not theirs.
bool try_activate_in_place(const Tensor& x, ImageActivation activation);
bool try_add_in_place(const Tensor& x, const Tensor& added);
bool try_copy_into(const Tensor& x, const Tensor& from);
/// A tensor of its own with the same value.
Tensor try_clone(const Tensor& x);
/// One behind the other along `dim`, which is 0 or 1.
Tensor try_cat(std::span<const Tensor> parts, std::int64_t dim);
/// Over all dimensions behind the channels: (N, C).
Tensor try_plane_mean(const Tensor& x);

}  // namespace blocked
}  // namespace core
