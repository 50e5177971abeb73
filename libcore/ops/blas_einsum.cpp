// Einstein's notation: operands are multiplied two by two, each pair as one batched matrix product.
#include "libcore/ops/blas.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

[[noreturn]] void fail_einsum(const std::string& text) {
  throw Error(ErrorCode::runtime, "einsum(): " + text);
}

/// A tensor and the letter of each of its dimensions. Dimensions of "..." have the letters '\1', '\2' ... from the
/// last.
struct Lettered {
  Tensor tensor;
  std::string letters;
};

bool holds(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

std::string ellipsis_letters(std::int64_t count) {
  std::string letters;
  for (std::int64_t i = count; i > 0; --i) letters += static_cast<char>(i);
  return letters;
}

/// "b...ij" for a tensor of `rank` dimensions.
std::string expanded(std::string_view term, std::int64_t rank, std::size_t operand) {
  std::string letters;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    if (term.compare(i, 3, "...") == 0) {
      const auto named = std::count_if(term.begin(), term.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
      letters += ellipsis_letters(rank - static_cast<std::int64_t>(named));
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      letters += term[i];
    } else {
      fail_einsum("invalid subscript given at index " + std::to_string(i) +
                  " in the equation string, subscripts must be in [a-zA-Z]");
    }
  }
  if (static_cast<std::int64_t>(letters.size()) != rank) {
    fail_einsum("the number of subscripts in the equation (" + std::to_string(letters.size()) +
                ") does not match the number of dimensions (" + std::to_string(rank) + ") for operand " +
                std::to_string(operand) + " and no ellipsis was given");
  }
  return letters;
}

/// A letter that stands twice means the diagonal.
Lettered without_repeats(Lettered x) {
  for (std::size_t i = 0; i < x.letters.size(); ++i) {
    const std::size_t other = x.letters.find(x.letters[i], i + 1);
    if (other == std::string::npos) continue;
    const char letter = x.letters[i];
    x.tensor = x.tensor.diagonal(0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(other));
    x.letters.erase(other, 1);
    x.letters.erase(i, 1);
    x.letters += letter;
    i = static_cast<std::size_t>(-1);
  }
  return x;
}

Tensor arranged(const Lettered& x, const std::string& order) {
  Shape dims;
  for (const char letter : order) dims.push_back(static_cast<std::int64_t>(x.letters.find(letter)));
  bool same = true;
  for (std::size_t i = 0; i < dims.size(); ++i) same = same && dims[i] == static_cast<std::int64_t>(i);
  return same ? x.tensor : x.tensor.permute(dims);
}

/// Sums over the letters that are in neither of the two texts.
Lettered summed(const Lettered& x, const std::string& kept) {
  Lettered result = x;
  Shape dims;
  for (std::size_t i = 0; i < x.letters.size(); ++i) {
    if (holds(kept, x.letters[i])) continue;
    dims.push_back(static_cast<std::int64_t>(i));
    result.letters.erase(result.letters.find(x.letters[i]), 1);
  }
  if (!dims.empty()) result.tensor = x.tensor.sum(dims);
  return result;
}

std::int64_t size_of(const Lettered& x, char letter) {
  return x.tensor.size(static_cast<std::int64_t>(x.letters.find(letter)));
}

/// The product of both, summed over what stands in both and is not kept.
Lettered multiplied(const Lettered& a, const Lettered& b, const std::string& kept) {
  std::string batch, left, right, inner;
  Shape sizes;
  for (const char c : a.letters) (!holds(b.letters, c) ? left : holds(kept, c) ? batch : inner) += c;
  for (const char c : b.letters) {
    if (!holds(a.letters, c)) right += c;
  }
  const auto count = [](const Lettered& x, const std::string& letters) {
    std::int64_t product = 1;
    for (const char c : letters) product *= size_of(x, c);
    return product;
  };
  for (const char c : batch) sizes.push_back(std::max(size_of(a, c), size_of(b, c)));
  for (const char c : left) sizes.push_back(size_of(a, c));
  for (const char c : right) sizes.push_back(size_of(b, c));

  const Tensor x = arranged(a, batch + left + inner), y = arranged(b, batch + inner + right);
  const auto batched = [&](const Tensor& t) {
    Shape all = t.sizes();
    for (std::size_t i = 0; i < batch.size(); ++i) all[i] = sizes[i];
    return t.expand(all);
  };
  std::int64_t batches = 1;
  for (std::size_t i = 0; i < batch.size(); ++i) batches *= sizes[i];
  const std::int64_t depth = count(a, inner);
  if (depth != count(b, inner)) fail_einsum("operands do not broadcast with remapped shapes [original->remapped]");
  const Tensor rows = batched(x).reshape({batches, count(a, left), depth});
  const Tensor columns = batched(y).reshape({batches, depth, count(b, right)});
  // Mixed precision knows bmm, but not products that sum nothing.
  const Tensor product = inner.empty() ? (rows * columns).contiguous() : bmm(rows, columns);
  return {product.view(sizes), batch + left + right};
}

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

std::vector<std::string_view> split_terms(std::string_view text) {
  std::vector<std::string_view> terms;
  for (std::size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    terms.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  terms.push_back(text);
  return terms;
}

/// Without "->": the dimensions of "..." and every letter that stands once, in order of the alphabet.
std::string implied_output(const std::vector<std::string>& inputs) {
  std::string all, output;
  std::int64_t ellipsis = 0;
  for (const std::string& letters : inputs) all += letters;
  for (const char c : all) {
    if (std::isalpha(static_cast<unsigned char>(c)) == 0) ellipsis = std::max<std::int64_t>(ellipsis, c);
  }
  std::sort(all.begin(), all.end());
  for (const char c : all) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 && std::count(all.begin(), all.end(), c) == 1) output += c;
  }
  return ellipsis_letters(ellipsis) + output;
}

Equation parse(std::string_view text, const std::vector<Tensor>& operands) {
  const std::size_t arrow = text.find("->");
  const auto terms = split_terms(text.substr(0, arrow));
  if (terms.size() != operands.size()) {
    fail_einsum(terms.size() < operands.size() ? "more operands were provided than specified in the equation"
                                               : "fewer operands were provided than specified in the equation");
  }
  Equation equation;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    equation.inputs.push_back(expanded(terms[i], operands[i].dim(), i));
  }
  equation.output = implied_output(equation.inputs);
  if (arrow == std::string_view::npos) return equation;
  std::int64_t ellipsis = 0;
  for (const std::string& letters : equation.inputs) {
    for (const char c : letters) {
      if (std::isalpha(static_cast<unsigned char>(c)) == 0) ellipsis = std::max<std::int64_t>(ellipsis, c);
    }
  }
  const std::string_view output = text.substr(arrow + 2);
  const auto named = std::count_if(output.begin(), output.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  const bool has_ellipsis = output.find("...") != std::string_view::npos;
  equation.output = expanded(output, named + (has_ellipsis ? ellipsis : 0), operands.size());
  return equation;
}

}  // namespace

Tensor einsum(std::string_view text, const std::vector<Tensor>& operands) {
  if (core::detail::traced_now())
    return core::detail::traced("einsum", operands, {{"equation", text}}, [&] { return einsum(text, operands); });
  const core::detail::OpScope scope("einsum");
  if (operands.empty()) fail_einsum("must provide at least one operand");
  const Equation equation = parse(text, operands);
  for (const char c : equation.output) {
    const bool known = std::any_of(equation.inputs.begin(), equation.inputs.end(),
                                   [c](const std::string& letters) { return holds(letters, c); });
    if (!known)
      fail_einsum(std::string("output subscript ") + c + " does not appear in the equation for any input operand");
  }
  Lettered result = without_repeats({operands[0], equation.inputs[0]});
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::string later = equation.output;
    for (std::size_t k = i + 1; k < operands.size(); ++k) later += equation.inputs[k];
    if (i == 0) {
      result = summed(result, later);
      continue;
    }
    const Lettered next = summed(without_repeats({operands[i], equation.inputs[i]}), later + result.letters);
    result = multiplied(result, next, later);
  }
  return arranged(result, equation.output);
}

}  // namespace core
