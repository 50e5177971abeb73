#pragma once
// The file that was probably meant where one is missing: "nett.pth" -> "net.pth".
// Thread safety: pure apart from looking at a folder. Use: if (auto guess = file_guess(error)) throw *guess;

#include <optional>

#include "libcore/base/error.h"

namespace cli {

/// For an error that says that a file is not there: the same that also names the file of its folder that is nearly
/// called so, where there is one.
std::optional<core::Error> file_guess(const core::Error& error);

}  // namespace cli
