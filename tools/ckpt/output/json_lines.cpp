#include "tools/ckpt/output/json_lines.h"

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

/// What of a document of files is about all of them: neither "files" nor the lists of their items.
void write_head(JsonWriter& line, const JsonView& document) {
  for (const auto& [key, value] : document.members()) {
    if (!value.is(JsonView::Kind::array)) write(line.key(key), value);
  }
}

/// The items of a list beside "files" that are of one file. They stand in the order of the files.
class ItemsOfFiles {
 public:
  ItemsOfFiles(std::string_view list, const JsonView& items) : list_(list), items_(items.items()) {}
  void append(std::string& lines, std::string_view file) {
    for (; next_ < items_.size() && items_[next_].at("file").as_text() == file; ++next_) {
      append_item(lines, list_, items_[next_]);
    }
  }

 private:
  std::string_view list_;
  std::vector<JsonView> items_;
  std::size_t next_ = 0;
};

}  // namespace

std::string json_lines(std::string_view document) {
  ckpt::JsonDocument parsed = ckpt::JsonDocument::parse(document);
  JsonView root = parsed.root();
  std::string lines;
  // A command that takes several files lists what it says of each under "files".
  if (!root.has("files") || !root.at("files").is(JsonView::Kind::array)) {
    append_line(lines, root, [](JsonWriter&) {});
    append_items(lines, root);
    return lines;
  }
  std::vector<ItemsOfFiles> lists;
  for (const Member& member : root.members()) {
    bool items = member.first != "files" && member.second.is(JsonView::Kind::array);
    if (items) lists.emplace_back(member.first, member.second);
  }
  for (const JsonView& file : root.at("files").items()) {
    append_line(lines, file, [&](JsonWriter& line) { write_head(line, root); });
    for (ItemsOfFiles& list : lists) list.append(lines, file.at("path").as_text());
    append_items(lines, file);
  }
  return lines;
}

}  // namespace cli
