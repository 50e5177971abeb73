#pragma once
// The head of a numpy file (.npy, version 1.0) for the values of a tensor; the bytes of the values follow it as they
// are. Thread safety: pure. Use: file << ckpt::npy_header(entry);

#include <string>

#include "libckpt/entry.h"

namespace ckpt {

/// Padded to a multiple of 64 bytes, as numpy writes it. Error(unsupported) for types that numpy does not have.
std::string npy_header(const Entry& entry);

}  // namespace ckpt
