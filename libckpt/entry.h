#pragma once
// Entry: one tensor of a checkpoint: what it is and where its bytes can be read. No byte is held.
// Thread safety: immutable once built. Use: core::ByteVector raw = ckpt::read_all(*entry.bytes);

#include <memory>
#include <string>

#include "libckpt/boxed.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/value.h"
#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"

namespace ckpt {

/// A block of memory that one or more entries look into, as it was saved.
struct Storage {
  core::DType dtype = core::DType::u8;  ///< type of its elements; u8 for untyped storage
  SourcePtr bytes;                      ///< all of it, little-endian
  std::string location = "cpu";         ///< device tag as the file says it
};

/// The window an entry is into its storage, in elements of the entry's dtype.
struct View {
  std::shared_ptr<const Storage> storage;
  std::int64_t offset = 0;
  core::Shape strides;
};

/// Values in quantised blocks of GGUF: dequantize() gives the values.
struct BlockType {
  std::string name;   ///< as the format calls it: "Q4_0"
  core::Shape shape;  ///< of the values; the entry itself is the blocks, rows of bytes
};

struct Entry {
  core::DType dtype = core::DType::f32;
  core::Shape shape;
  std::string location = "cpu";  ///< device tag: "cpu", "cuda:1", "npu:0"; kept as text, never resolved
  /// The logical values: contiguous, row-major, little-endian, byte_size(dtype, numel) bytes. Null for a meta tensor.
  /// Entries that are the same view of the same memory share one source.
  SourcePtr bytes;
  Boxed<View> view;        ///< what the file says beyond that, where the format has views
  bool parameter = false;  ///< torch.nn.Parameter
  bool requires_grad = false;
  bool conjugate = false;    ///< logical values are the conjugate of the bytes
  bool negative = false;     ///< logical values are the bytes negated
  std::string stored_type;   ///< how the file spells the type where that is not dtype's name: Keras' "void16"; else ""
  std::string python_class;  ///< subclass of torch.Tensor, "" for none
  Value attributes;          ///< Python attributes set on the tensor, a dict or null
  /// Set for opaque blocks: dtype and shape are then u8 and what the bytes are; formats without the type refuse them.
  Boxed<BlockType> blocks;

  /// Values, also where they are packed in blocks.
  std::uint64_t numel() const { return core::try_numel((blocks ? blocks->shape : shape).span()).value_or(0); }
  /// Bytes of the logical values.
  std::uint64_t byte_size() const { return bytes ? bytes->size() : 0; }
};

using EntryPtr = std::shared_ptr<const Entry>;

/// "bfloat16", or the name of the block type.
std::string type_name(const Entry& entry);
/// Shape of the values, also where they are packed in blocks.
const core::Shape& value_shape(const Entry& entry);

/// What tied entries have in common: the storage where there is one, else the source. Null for meta tensors.
const void* storage_identity(const Entry& entry);
/// True when both show the same elements of the same memory in the same order (so one is an alias of the other).
bool same_view(const Entry& a, const Entry& b);

/// The logical bytes of a strided window, gathered while being read. A dense row-major window is a plain slice.
/// Errors: Error(corrupt) when offset, shape and strides reach outside the storage or overflow.
SourcePtr gather(const View& view, core::DType dtype, const core::Shape& shape);

}  // namespace ckpt
