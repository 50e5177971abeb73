#pragma once
// What ckpt diff found, as lines, as JSON and as a page.
// Thread safety: one thread. Use: print_diff(out, result);

#include <string>

#include "libckpt/analyze/diff.h"
#include "tools/ckpt/html.h"
#include "tools/ckpt/input.h"

namespace cli {

void print_diff(Output& out, const ckpt::DiffResult& result);
std::string diff_json(const Input& a, const Input& b, const ckpt::DiffResult& result);
HtmlPage diff_page(const Input& a, const Input& b, const ckpt::DiffResult& result);

}  // namespace cli
