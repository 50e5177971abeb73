#pragma once
// The file that was probably meant where one is missing: "nett.pth" -> "net.pth".
// Thread safety: pure apart from looking at a folder. Use: throw with_file_guess(error);

#include "libcore/base/error.h"

namespace cli {

/// The same error; one that says that a file is not there also names the file of its folder that is nearly called so.
core::Error with_file_guess(const core::Error& error);

}  // namespace cli
