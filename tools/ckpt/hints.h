#pragma once
// Hints of libckpt in the words of this program: the one place that knows which flag is which option.
// Thread safety: pure. Use: print(with_advice(error.message(), ckpt::hint_of(error)));

#include <optional>
#include <string>

#include "libckpt/hint.h"

namespace cli {

/// "12 bytes too many; --lenient reads on"; the text alone where there is no hint.
std::string with_advice(const std::string& text, const std::optional<ckpt::Hint>& hint);

}  // namespace cli
