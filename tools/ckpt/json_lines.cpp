#include "tools/ckpt/json_lines.h"

#include <utility>
#include <vector>

#include "libckpt/io/json.h"

namespace cli {

namespace {

using ckpt::JsonView;
using ckpt::JsonWriter;
using Member = std::pair<std::string_view, JsonView>;

// Recursion is bounded by the depth that the parser accepts.
void write(JsonWriter& out, const JsonView& value) {
  switch (value.kind()) {
    case JsonView::Kind::null:
      out.null();
      break;
    case JsonView::Kind::boolean:
      out.value(value.as_boolean());
      break;
    case JsonView::Kind::integer:
      out.value(value.as_integer());
      break;
    case JsonView::Kind::unsigned_integer:
      out.value(value.as_unsigned());
      break;
    case JsonView::Kind::real:
      out.value(value.as_real());
      break;
    case JsonView::Kind::text:
      out.value(value.as_text());
      break;
    case JsonView::Kind::array:
      out.begin_array();
      for (const JsonView& item : value.items()) write(out, item);
      out.end_array();
      break;
    case JsonView::Kind::object:
      out.begin_object();
      for (const auto& [key, member] : value.members()) write(out.key(key), member);
      out.end_object();
      break;
  }
}

/// One object as a line; `first` are members put before its own.
template <class WriteFirst>
void append_line(std::string& lines, const JsonView& object, const WriteFirst& write_first) {
  JsonWriter line;
  line.begin_object();
  write_first(line);
  for (const auto& [key, value] : object.members()) {
    line.key(key);
    if (value.is(JsonView::Kind::array)) {
      line.value(static_cast<std::uint64_t>(value.items().size()));
    } else {
      write(line, value);
    }
  }
  line.end_object();
  lines += line.take() + "\n";
}

void append_item(std::string& lines, std::string_view list, const JsonView& item) {
  JsonWriter line;
  line.begin_object();
  line.key("of").value(list);
  if (item.is(JsonView::Kind::object)) {
    for (const auto& [key, value] : item.members()) write(line.key(key), value);
  } else {
    write(line.key("value"), item);
  }
  line.end_object();
  lines += line.take() + "\n";
}

void append_items(std::string& lines, const JsonView& object) {
  for (const Member& member : object.members()) {
    if (!member.second.is(JsonView::Kind::array)) continue;
    for (const JsonView& item : member.second.items()) append_item(lines, member.first, item);
  }
}

/// The head of a document of several files: what precedes their list.
void write_head(JsonWriter& line, const JsonView& document) {
  for (const auto& [key, value] : document.members()) {
    if (key != "files") write(line.key(key), value);
  }
}

}  // namespace

std::string json_lines(std::string_view document) {
  ckpt::JsonDocument parsed = ckpt::JsonDocument::parse(document);
  JsonView root = parsed.root();
  std::string lines;
  // A command that takes several files lists their documents under "files", beside "schema" and "version".
  bool several = root.members().size() == 3 && root.has("files");
  if (!several) {
    append_line(lines, root, [](JsonWriter&) {});
    append_items(lines, root);
    return lines;
  }
  for (const JsonView& file : root.at("files").items()) {
    append_line(lines, file, [&](JsonWriter& line) { write_head(line, root); });
    append_items(lines, file);
  }
  return lines;
}

}  // namespace cli
