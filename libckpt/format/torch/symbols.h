#pragma once
// The names that a pickle may mention. A name outside these tables is foreign: it is reported, and refused unless the
// caller asked to keep foreign objects as inert data. Nothing is ever imported, looked up or called.
// Thread safety: pure functions. Use: make_symbol("__builtin__", "set").role == SymbolRole::value

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/dtype.h"

namespace ckpt {

enum class SymbolRole : std::uint8_t {
  value,       ///< a call of it is understood and becomes data; the result cannot be changed afterwards
  dict_class,  ///< OrderedDict and its kin: items and state may be set
  stateful,    ///< understood, and BUILD may follow: numpy arrays, old tensors and parameters
  inert,       ///< carried as the name and the data around it
  foreign,     ///< nobody knows it
  forbidden,   ///< refused whatever the caller allows: a function of the interpreter or the operating system
};

struct PickleSymbol {
  std::string full;  ///< "module.name", Python 2 names normalised
  std::string name;
  SymbolRole role = SymbolRole::foreign;
};

/// Normalises Python 2 names and finds the role.
PickleSymbol make_symbol(std::string_view module, std::string_view name);

/// Type of the elements of "torch.FloatStorage" and its kin; u8 for untyped storage. Also torch.cuda.FloatStorage.
std::optional<core::DType> storage_class_dtype(std::string_view symbol);
bool is_untyped_storage(std::string_view symbol);
/// "torch.distributed.tensor.DTensor", under the names that releases of PyTorch had for it.
bool is_dtensor_class(std::string_view symbol);
/// "FloatStorage", or "" when the type has no storage class of its own and is saved as untyped bytes.
std::string_view storage_class_name(core::DType dtype);
/// The type behind "torch.float16".
std::optional<core::DType> dtype_symbol(std::string_view symbol);
/// The type behind "torch.FloatTensor" (a tensor of PyTorch before 0.4).
std::optional<core::DType> tensor_class_dtype(std::string_view symbol);

/// True when torch.load(weights_only=True) lets a pickle name this.
bool weights_only_knows(std::string_view symbol);

/// Splits "module.name" at the last dot and gives the names that protocol 2 uses ("__builtin__", "long").
struct SymbolParts {
  std::string module;
  std::string name;
};
SymbolParts protocol2_parts(std::string_view symbol);

}  // namespace ckpt
