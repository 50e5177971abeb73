#include "libcore/tensor/default_type.h"

#include <string>

#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/tensor/factory.h"

namespace core {
namespace {

struct NamedType {
  std::string_view name;
  DType dtype;
};

constexpr NamedType kTypes[] = {
    {"FloatTensor", DType::f32},     {"DoubleTensor", DType::f64}, {"HalfTensor", DType::f16},
    {"BFloat16Tensor", DType::bf16}, {"ByteTensor", DType::u8},    {"CharTensor", DType::i8},
    {"ShortTensor", DType::i16},     {"IntTensor", DType::i32},    {"LongTensor", DType::i64},
    {"BoolTensor", DType::boolean},
};

[[noreturn]] void throw_unknown(std::string_view module, std::string_view name) {
  throw Error(ErrorCode::attribute,
              "module '" + std::string(module) + "' has no attribute '" + std::string(name) + "'");
}

}  // namespace

void set_default_tensor_type(std::string_view type) {
  std::string_view name = type;
  bool on_cuda = name.starts_with("torch.cuda.");
  if (!name.starts_with("torch.")) throw_unknown("torch", type);
  name.remove_prefix(on_cuda ? 11 : 6);
  for (const NamedType& known : kTypes) {
    if (known.name != name) continue;
    warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.");
    set_default_dtype(known.dtype);
    set_default_device(on_cuda ? Device(DeviceType::cuda) : Device());
    return;
  }
  throw_unknown(on_cuda ? "torch.cuda" : "torch", name);
}

}  // namespace core
