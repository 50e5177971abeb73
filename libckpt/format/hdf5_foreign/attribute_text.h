#pragma once
// Attributes of HDF5 objects as text metadata, and those that this library understands.
// Thread safety: pure functions. Use: metadata.emplace_back(a.name, attribute_text(a));

#include <optional>
#include <string>

#include "libckpt/hdf5/tree.h"

namespace ckpt::detail {

/// A text as it is, a number as it is written, a list as JSON.
std::string attribute_text(const Hdf5Attribute& attribute);

/// The value of a single text, nullopt for anything else.
std::optional<std::string> text_of(const std::vector<Hdf5Attribute>& attributes, std::string_view name);

}  // namespace ckpt::detail
