#include "libckpt/hint.h"

#include <string_view>
#include <utility>

namespace ckpt {

std::string Hint::say(const std::function<std::string(const Use&)>& name) const {
  constexpr std::string_view kPlace = "{}";
  std::string said;
  std::string_view rest = text;
  for (const Use& use : options) {
    std::size_t place = rest.find(kPlace);
    if (place == std::string_view::npos) break;
    said += std::string(rest.substr(0, place)) + name(use);
    rest.remove_prefix(place + kPlace.size());
  }
  return said + std::string(rest);
}

Hint both(Hint first, const Hint& second) {
  first.text += "; " + second.text;
  first.options.insert(first.options.end(), second.options.begin(), second.options.end());
  return first;
}

HintedError::HintedError(core::ErrorCode code, std::string message, std::optional<Hint> hint)
    : Error(code, std::move(message)), hint_(std::move(hint)) {}

std::optional<Hint> hint_of(const core::Error& error) {
  const auto* hinted = dynamic_cast<const HintedError*>(&error);
  return hinted == nullptr ? std::nullopt : hinted->hint();
}

}  // namespace ckpt
