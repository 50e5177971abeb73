#pragma once
// Attributes of HDF5 objects as text metadata, and those that this library understands.
// Thread safety: pure functions. Use: metadata.emplace_back(a.name, attribute_text(a));

#include <string>

#include "libckpt/hdf5/tree.h"

namespace ckpt::detail {

/// A text as it is, a number as it is written, a list as JSON.
std::string attribute_text(const Hdf5Attribute& attribute);

}  // namespace ckpt::detail
