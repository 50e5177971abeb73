#include "libckpt/onnx/sizes.h"

namespace ckpt::onnx {
namespace {

/// What the product of some sizes was in the first pass, or in that of sizes[other].
std::int64_t product(const std::vector<std::size_t>& of, const std::vector<NamedSize>& sizes, std::size_t other) {
  std::int64_t result = 1;
  for (const std::size_t i : of) result *= i == other ? sizes[i].second : sizes[i].first;
  return result;
}

/// The term over a product, where it explains every value.
std::optional<SizeTerm> over(std::vector<std::size_t> of, const std::vector<std::int64_t>& values,
                             const std::vector<NamedSize>& sizes) {
  const std::int64_t first = product(of, sizes, sizes.size());
  const std::int64_t step = product(of, sizes, of[0]) - first, change = values[of[0] + 1] - values[0];
  if (step == 0 || change % step != 0) return std::nullopt;
  SizeTerm term{.factor = change / step, .sizes = std::move(of)};
  term.offset = values[0] - term.factor * first;
  for (const std::size_t i : term.sizes) {
    if (values[i + 1] != term.factor * product(term.sizes, sizes, i) + term.offset) return std::nullopt;
  }
  return term;
}

}  // namespace

std::optional<SizeTerm> explain(const std::vector<std::int64_t>& values, const std::vector<NamedSize>& sizes) {
  std::vector<std::size_t> moved;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    if (values[i + 1] != values[0]) moved.push_back(i);
  }
  if (moved.empty()) return SizeTerm{.factor = 0, .sizes = {}, .offset = values[0]};
  if (sizes.empty()) return std::nullopt;
  std::optional<SizeTerm> term = over(moved, values, sizes);
  if (moved.size() > 1 || (term && term->offset == 0)) return term;
  const std::optional<SizeTerm> squared = over({moved[0], moved[0]}, values, sizes);
  return squared && squared->offset == 0 ? squared : term;
}

std::string text_of(const SizeTerm& term, const std::vector<NamedSize>& sizes) {
  if (term.is_constant()) return std::to_string(term.offset);
  std::string text = term.factor == 1 ? "" : std::to_string(term.factor);
  for (const std::size_t i : term.sizes) text += (text.empty() ? "" : "*") + sizes[i].name;
  if (term.offset > 0) text += "+";
  return term.offset == 0 ? text : text + std::to_string(term.offset);
}

}  // namespace ckpt::onnx
