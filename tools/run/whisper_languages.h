#pragma once
// English names of the languages that Whisper tells apart, as transformers takes them beside its codes.
// Thread safety: pure. Use: language_code("german") == "de";

#include <string_view>

namespace cli {

/// The code of a language by its name in small letters; "" for a name that Whisper does not have.
std::string_view language_code(std::string_view name);

}  // namespace cli
