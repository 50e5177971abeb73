#pragma once
// What ckpt diff found, as lines, as JSON and as a page.
// Thread safety: one thread. Use: print_diff(out, result);

#include <cstdint>
#include <string>

#include "libckpt/analyze/diff.h"
#include "tools/ckpt/line/input.h"
#include "tools/ckpt/output/html.h"

namespace cli {

enum class DiffDetail : std::uint8_t {
  summary,  ///< the verdict and the totals
  folded,   ///< and a line for each difference that no verdict explains
  all,      ///< and for each other one
};

/// The verdict comes first.
void print_diff(Output& out, const ckpt::DiffResult& result, DiffDetail detail = DiffDetail::folded);
std::string diff_json(const Input& a, const Input& b, const ckpt::DiffResult& result);
HtmlPage diff_page(const Input& a, const Input& b, const ckpt::DiffResult& result);

}  // namespace cli
