#include "tools/python/bindings/tensor.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <new>

#include "libckpt/analyze/numbers.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/python/bindings/calls.h"
#include "tools/python/bindings/file_map.h"

namespace python {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using Code = nb::dlpack::dtype_code;

constexpr std::size_t kAlignment = 64;     // of memory that values are read into
constexpr std::size_t kSmall = 64U << 10;  // bytes that are read at once: a map of their own would cost more
constexpr std::size_t kPiece = 64U << 20;  // bytes between two looks for signals

struct ArrayType {
  DType dtype;
  Code code;
  bool in_numpy;  ///< NumPy has it; else ml_dtypes has one of the same name, or none has
};

constexpr ArrayType kArrayTypes[] = {
    {DType::boolean, Code::Bool, true},
    {DType::u8, Code::UInt, true},
    {DType::i8, Code::Int, true},
    {DType::i16, Code::Int, true},
    {DType::i32, Code::Int, true},
    {DType::i64, Code::Int, true},
    {DType::u16, Code::UInt, true},
    {DType::u32, Code::UInt, true},
    {DType::u64, Code::UInt, true},
    {DType::f16, Code::Float, true},
    {DType::f32, Code::Float, true},
    {DType::f64, Code::Float, true},
    {DType::c64, Code::Complex, true},
    {DType::c128, Code::Complex, true},
    {DType::c32, Code::Complex, false},
    {DType::bf16, Code::Bfloat, false},
    {DType::f8_e4m3fn, Code::Float8_E4M3FN, false},
    {DType::f8_e5m2, Code::Float8_E5M2, false},
    {DType::f8_e4m3fnuz, Code::Float8_E4M3FNUZ, false},
    {DType::f8_e5m2fnuz, Code::Float8_E5M2FNUZ, false},
    {DType::f8_e8m0fnu, Code::Float8_E8M0FNU, false},
    {DType::f4_e2m1fn_x2, Code::Float4_E2M1FN, false},
};

const ArrayType* array_type(DType dtype) {
  for (const ArrayType& type : kArrayTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

[[noreturn]] void fail(const Tensor& tensor, const std::string& what) {
  throw Error(ErrorCode::unsupported, core::quote(tensor.name) + " " + what);
}

/// Bytes of a tensor that stay where they are, and what keeps them there.
struct Values {
  void* data = nullptr;
  std::shared_ptr<const void> owner;
};

struct FreeAligned {
  void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t(kAlignment)); }
};

/// Without the lock.
Values read_values(const ckpt::Entry& entry) {
  const auto size = static_cast<std::size_t>(entry.byte_size());
  std::shared_ptr<std::byte> memory(
      static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), std::align_val_t(kAlignment))),
      FreeAligned());
  const ckpt::MutableBytes all(memory.get(), size);
  for (std::size_t done = 0; done < size; done += kPiece) {
    entry.bytes->read(done, all.subspan(done, std::min(kPiece, size - done)));
    heed_signals();
  }
  entry.bytes->require_unchanged();
  if (entry.conjugate || entry.negative) ckpt::detail::resolve_flags(entry, all);
  return {memory.get(), memory};
}

/// Who may write to an array.
enum class Access {
  read,  ///< nobody: the file itself, shared with every other array of it
  own,   ///< its holder, who sees it alone: the file until he writes
  copy,  ///< the same, in memory that has nothing to do with the file
};

/// The bytes in the file itself, where they lie there as they are and where an array may begin.
Values mapped_values(const ckpt::Entry& entry, Access access) {
  const auto alignment = static_cast<std::size_t>(std::max(core::bit_width(entry.dtype) / 8, 1));
  const std::optional<ckpt::FileRange> range = entry.bytes->file_range();
  if (!range || range->length == 0 || entry.conjugate || entry.negative) return {};
  if (access == Access::own && range->length < kSmall) return {};
  const auto map = access == Access::own ? FileMap::part(*range) : FileMap::whole(range->fd);
  void* data = map == nullptr ? nullptr : map->at(range->offset, range->length);
  if (data == nullptr || reinterpret_cast<std::uintptr_t>(data) % alignment != 0) return {};
  return {data, map};
}

Values values_of(const Tensor& tensor, Access access) {
  const ckpt::Entry& entry = *tensor.entry;
  if (entry.bytes == nullptr) fail(tensor, "has no values: it was saved on the meta device");
  return core::with_context(tensor.name, [&] {
    return without_lock([&] {
      Values mapped = access == Access::copy ? Values() : mapped_values(entry, access);
      return mapped.data == nullptr ? read_values(entry) : mapped;
    });
  });
}

nb::capsule capsule_of(const std::shared_ptr<const void>& owner) {
  return nb::capsule(new std::shared_ptr<const void>(owner),
                     [](void* held) noexcept { delete static_cast<std::shared_ptr<const void>*>(held); });
}

/// `dtype` in place of the tensor's own.
template <class... Annotations>
nb::object array_of(const Tensor& tensor, nb::dlpack::dtype dtype, Access access) {
  const Values values = values_of(tensor, access);
  std::vector<std::size_t> shape;
  for (std::int64_t size : tensor.entry->shape.span()) shape.push_back(static_cast<std::size_t>(size));
  nb::capsule owner = capsule_of(values.owner);
  if (access != Access::read) {
    return nb::cast(nb::ndarray<Annotations...>(values.data, shape.size(), shape.data(), owner, nullptr, dtype));
  }
  return nb::cast(nb::ndarray<nb::ro, Annotations...>(values.data, shape.size(), shape.data(), owner, nullptr, dtype));
}

nb::dlpack::dtype dlpack_type(const Tensor& tensor) {
  const ArrayType* type = tensor.entry->blocks ? nullptr : array_type(tensor.entry->dtype);
  if (type == nullptr) {
    fail(tensor,
         "is of type " + ckpt::type_name(*tensor.entry) + ", which arrays do not have; tobytes() gives its bytes");
  }
  const bool pair = type->code == Code::Float4_E2M1FN;
  return {static_cast<std::uint8_t>(type->code), static_cast<std::uint8_t>(pair ? 4 : core::bit_width(type->dtype)),
          static_cast<std::uint16_t>(pair ? 2 : 1)};
}

/// The same bits under a type of ml_dtypes.
nb::object small_float_array(const Tensor& tensor, Access access) {
  const std::string name(core::name(tensor.entry->dtype));
  nb::object type;
  try {
    type = nb::module_::import_("ml_dtypes").attr(name.c_str());
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError) && !error.matches(PyExc_AttributeError)) throw;
    fail(tensor, "is of type " + name +
                     ", which NumPy does not have; install ml_dtypes, or take torch(), or cast('float32') first");
  }
  const auto bits = static_cast<std::uint8_t>(core::bit_width(tensor.entry->dtype));
  nb::object raw = array_of<nb::numpy>(tensor, {static_cast<std::uint8_t>(Code::UInt), bits, 1}, access);
  return raw.attr("view")(type);
}

nb::object numpy_of(const Tensor& tensor, bool copy) {
  const Access access = copy ? Access::copy : Access::read;
  const nb::dlpack::dtype dtype = dlpack_type(tensor);
  return array_type(tensor.entry->dtype)->in_numpy ? array_of<nb::numpy>(tensor, dtype, access)
                                                   : small_float_array(tensor, access);
}

nb::object array_protocol(const Tensor& tensor, const nb::object& dtype, const nb::object& copy) {
  const bool own = !copy.is_none() && nb::cast<bool>(copy);
  nb::object array = numpy_of(tensor, own);
  return dtype.is_none() ? array : array.attr("astype")(dtype, nb::arg("copy") = false);
}

nb::object dlpack_of(const Tensor& tensor, const nb::kwargs& arguments) {
  nb::object copy = arguments.contains("copy") ? nb::object(arguments["copy"]) : nb::none();
  const bool own_memory = !copy.is_none() && nb::cast<bool>(copy);
  if (own_memory) nb::del(arguments["copy"]);
  const Access access = own_memory ? Access::copy : Access::own;
  return array_of<nb::array_api>(tensor, dlpack_type(tensor), access).attr("__dlpack__")(**arguments);
}

nb::object torch_of(const Tensor& tensor, bool copy) {
  const nb::dlpack::dtype dtype = dlpack_type(tensor);
  return nb::module_::import_("torch").attr("from_dlpack")(
      array_of<>(tensor, dtype, copy ? Access::copy : Access::own));
}

nb::bytes bytes_of(const Tensor& tensor) {
  const Values values = values_of(tensor, Access::read);
  return nb::bytes(values.data, static_cast<std::size_t>(tensor.entry->byte_size()));
}

nb::tuple shape_of(const Tensor& tensor) {
  nb::list sizes;
  for (std::int64_t size : ckpt::value_shape(*tensor.entry).span()) sizes.append(size);
  return nb::tuple(sizes);
}

std::string repr_of(const Tensor& tensor) {
  nb::str shape(shape_of(tensor));
  return "Tensor(" + core::quote(tensor.name) + ", shape=" + shape.c_str() +
         ", dtype=" + ckpt::type_name(*tensor.entry) + ", device=" + core::quote(tensor.entry->location) + ")";
}

/// Memory of another Python object, which it keeps.
class PythonMemory final : public ckpt::ByteSource {
 public:
  PythonMemory(std::uintptr_t address, std::size_t size, nb::object owner)
      : bytes_(reinterpret_cast<const std::byte*>(address), size), owner_(std::move(owner)) {}
  ~PythonMemory() override {
    nb::gil_scoped_acquire lock;
    owner_.reset();
  }
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, ckpt::MutableBytes out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      throw Error(ErrorCode::corrupt, "a tensor reaches outside of its memory");
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  ckpt::Bytes memory() const override { return bytes_; }
  void require_unchanged() const override {}

 private:
  ckpt::Bytes bytes_;
  nb::object owner_;
};

using StoragePtr = std::shared_ptr<const ckpt::Storage>;

struct MemoryStorage {
  StoragePtr storage;
};

MemoryStorage storage_of(std::uintptr_t address, std::size_t size, nb::object owner, const std::string& dtype,
                         const std::string& device) {
  auto storage = std::make_shared<ckpt::Storage>();
  storage->dtype = core::parse_dtype(dtype);
  storage->bytes = std::make_shared<PythonMemory>(address, size, std::move(owner));
  storage->location = device;
  return {storage};
}

Tensor tensor_of(const MemoryStorage& memory, const std::string& dtype, const std::vector<std::int64_t>& shape,
                 const std::vector<std::int64_t>& strides, std::int64_t offset, bool requires_grad, bool parameter) {
  ckpt::Entry entry;
  entry.dtype = core::parse_dtype(dtype);
  entry.shape = core::Shape(shape);
  entry.location = memory.storage->location;
  entry.requires_grad = requires_grad;
  entry.parameter = parameter;
  entry.view = ckpt::View{memory.storage, offset, core::Shape(strides)};
  entry.bytes = ckpt::gather(*entry.view, entry.dtype, entry.shape);
  return {"", std::make_shared<ckpt::Entry>(std::move(entry))};
}

}  // namespace

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor",
                     "One tensor of a checkpoint. Its values are read when they are asked for: numpy.asarray(t), "
                     "torch.from_dlpack(t), t.numpy(), t.torch(), t.tobytes().")
      .def_ro("name", &Tensor::name, "Its place in the checkpoint: 'model.fc.weight'.")
      .def_prop_ro("shape", &shape_of)
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return ckpt::type_name(*t.entry); },
          "PyTorch's name: 'float32', 'bfloat16'; of quantised blocks the format's: 'Q4_0'.")
      .def_prop_ro(
          "device", [](const Tensor& t) { return t.entry->location; },
          "Where it was saved: 'cpu', 'cuda:1'. Its values are read into host memory all the same.")
      .def_prop_ro("requires_grad", [](const Tensor& t) { return t.entry->requires_grad; })
      .def_prop_ro("nbytes", [](const Tensor& t) { return t.entry->byte_size(); })
      .def_prop_ro(
          "size", [](const Tensor& t) { return t.entry->numel(); }, "How many elements it has.")
      .def_prop_ro("ndim", [](const Tensor& t) { return ckpt::value_shape(*t.entry).span().size(); })
      .def("numpy", &numpy_of, nb::kw_only(), nb::arg("copy") = false,
           "A NumPy array. It looks into the file itself where the values lie there as they are, and cannot be written "
           "to; with copy=True it is memory of its own. bfloat16 and the 8-bit floats need ml_dtypes.")
      .def("torch", &torch_of, nb::kw_only(), nb::arg("copy") = false,
           "A torch.Tensor on the CPU. It looks into the file as numpy() does; what is written to it stays in it.")
      .def("tobytes", &bytes_of, "The bytes of the values: row-major, little-endian.")
      .def("__array__", &array_protocol, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack__", &dlpack_of)
      .def("__dlpack_device__", [](const Tensor&) { return nb::make_tuple(1, 0); })
      .def("__repr__", &repr_of);
  nb::class_<MemoryStorage>(module, "_Storage")
      .def("__init__", [](MemoryStorage* self, std::uintptr_t address, std::size_t size, nb::object owner,
                          const std::string& dtype, const std::string& device) {
        new (self) MemoryStorage(storage_of(address, size, std::move(owner), dtype, device));
      });
  module.def("_tensor", &tensor_of, nb::arg("storage"), nb::arg("dtype"), nb::arg("shape"), nb::arg("strides"),
             nb::arg("offset"), nb::arg("requires_grad"), nb::arg("parameter"));
}

}  // namespace python
