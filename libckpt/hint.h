#pragma once
// Hint: which options of this library would help after an error, in a sentence that has places for their names; and the
// error that carries one. The message of such an error names no option, so that each program can say the hint in its
// own words: flags, menus, arguments. Thread safety: plain values. Errors: none here. Use:
// ckpt::Hint hint{"{} reads on", {{ckpt::Hint::Option::lenient}}};
// throw ckpt::HintedError(core::ErrorCode::corrupt, "12 bytes too many", hint);

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/base/error.h"

namespace ckpt {

struct Hint {
  enum class Option : std::uint8_t {
    lenient,             ///< OpenOptions::lenient
    allow_symlinks,      ///< OpenOptions::allow_symlinks
    unsandboxed,         ///< OpenOptions::unsandboxed
    max_expansion,       ///< OpenOptions::limits.max_expansion
    drop_inexpressible,  ///< SaveOptions::drop_inexpressible
    retype,              ///< SaveOptions::retype
    part,                ///< a part of the checkpoint alone is meant: value_at()
    average,             ///< PublishOptions::ema, which names an average
    no_average,          ///< PublishOptions::ema that leaves averages out
    output,              ///< another file is written, not the given one: RescueOptions::in_place is false
    reindex,             ///< the function reindex()
    rescue,              ///< the function rescue()
    dequantize,          ///< the function dequantize()
  };
  struct Use {
    Option option;
    std::optional<core::DType> from = {};  ///< of retype, where a type suggests itself
    std::optional<core::DType> to = {};
    std::string name = {};  ///< of part, where one suggests itself
  };

  std::string text;               ///< "{} reads the first": the places of the options are marked with {}
  std::vector<Use> options = {};  ///< one for each place

  /// The text with the names that the program has for the options.
  std::string say(const std::function<std::string(const Use&)>& name) const;
};

/// One hint that says `first`, then `second`.
Hint both(Hint first, const Hint& second);

class HintedError : public core::Error {
 public:
  HintedError(core::ErrorCode code, std::string message, std::optional<Hint> hint);
  const std::optional<Hint>& hint() const noexcept { return hint_; }

 private:
  std::optional<Hint> hint_;
};

/// The hint of an error that carries one. Copies of type core::Error carry none.
std::optional<Hint> hint_of(const core::Error& error);

}  // namespace ckpt
