#include "libckpt/transform/module_moves.h"

#include <string_view>

namespace ckpt::detail {
namespace {

/// For the module that holds the parameter itself, the new key's module; for those above it, `to` less what both names
/// have in common behind the module.
std::optional<std::string> new_path(const std::string& from, const std::string& to, std::size_t dot) {
  if (dot == from.rfind('.')) return to.substr(0, to.find('.') == std::string::npos ? 0 : to.rfind('.'));
  std::string_view rest = std::string_view(from).substr(dot);
  if (!to.ends_with(rest)) return std::nullopt;
  return to.substr(0, to.size() - rest.size());
}

}  // namespace

void ModuleMoves::add(const std::string& from, const std::string& to) {
  for (std::size_t dot = from.rfind('.'); dot != std::string::npos && dot > 0; dot = from.rfind('.', dot - 1)) {
    note(from.substr(0, dot), new_path(from, to, dot));
  }
}

std::string ModuleMoves::moved(const std::string& path) const {
  auto known = moves_.find(path);
  return known != moves_.end() && known->second ? *known->second : path;
}

void ModuleMoves::note(std::string path, std::optional<std::string> target) {
  auto [at, fresh] = moves_.emplace(std::move(path), target);
  if (!fresh && at->second != target) at->second = std::nullopt;
}

}  // namespace ckpt::detail
