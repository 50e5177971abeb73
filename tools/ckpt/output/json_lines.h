#pragma once
// JSON lines: the document that --json prints, as lines that grep, head and a streaming reader can use.
// Thread safety: a pure function. Use: out.print(json_lines(document));

#include <string>
#include <string_view>

namespace cli {

/// For each file of the document a line with its members, lists replaced by their lengths; then a line for each item of
/// those lists: its members behind "of", the name of its list; "value" for an item that is no object.
/// REQUIRES: `document` is what a command printed under --json.
std::string json_lines(std::string_view document);

}  // namespace cli
