#include "libckpt/analyze/key_list.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/io/json.h"
#include "libckpt/state_dicts.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kBlank = " \t\r";

std::string_view trim(std::string_view text, std::string_view what = kBlank) {
  std::size_t first = text.find_first_not_of(what);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(what) - first + 1);
}

[[noreturn]] void throw_bad(const std::string& text) {
  throw Error(ErrorCode::corrupt, text);
}

std::string_view take_word(std::string_view& text) {
  text = trim(text);
  std::size_t end = std::min(text.find_first_of(kBlank), text.size());
  std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

/// "10x512", "[10, 512]", "(10, 512)", "torch.Size([10, 512])", "scalar", "[]".
std::optional<core::Shape> parse_shape(std::string_view text) {
  if (text == "scalar") return core::Shape{};
  if (text.starts_with("torch.Size")) text.remove_prefix(10);
  text = trim(text, " \t\r()[]");
  core::Shape shape;
  while (!text.empty()) {
    std::int64_t size = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) return std::nullopt;
    shape.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) break;
    if (text[0] != 'x' && text[0] != ',') return std::nullopt;
    text = trim(text.substr(1));
  }
  return shape;
}

/// The shape at the start of what stands behind a key; brackets may hold blanks.
std::string_view take_shape(std::string_view& text) {
  text = trim(text);
  std::size_t open = text.find_first_of("[(");
  if (open == std::string_view::npos || text.substr(0, open).find_first_of(kBlank) != std::string_view::npos) {
    return take_word(text);
  }
  std::size_t end = text.find_last_of("])");
  end = end == std::string_view::npos ? text.size() : end + 1;
  std::string_view shape = text.substr(0, end);
  text.remove_prefix(end);
  return shape;
}

WantedKey::Kind parse_kind(std::string_view word) {
  if (word == "parameter") return WantedKey::Kind::parameter;
  return word == "buffer" ? WantedKey::Kind::buffer : WantedKey::Kind::unknown;
}

WantedKey parse_key_line(std::string_view line) {
  WantedKey wanted;
  std::string_view key = take_word(line);
  if (key.size() > 1 && key.ends_with(':')) key.remove_suffix(1);
  wanted.key = trim(key, "'\",");
  if (trim(line).empty()) return wanted;
  std::string_view shape = take_shape(line);
  wanted.shape = parse_shape(shape);
  if (!wanted.shape) throw_bad(core::quote(shape) + " after key " + core::quote(wanted.key) + " is not a shape");
  std::string_view dtype = trim(take_word(line), ",");
  if (!dtype.empty()) wanted.dtype = core::try_parse_dtype(dtype);
  wanted.kind = parse_kind(take_word(line));
  return wanted;
}

void describe(KeyList& list, std::string_view line) {
  std::string_view word = take_word(line);
  std::string_view value = trim(line);
  if (word == "reference") list.reference = value;
  if (word == "arguments") list.arguments = value;
  if (word == "parameters") std::from_chars(value.data(), value.data() + value.size(), list.parameters);
}

void add_version(KeyList& list, std::string_view line) {
  std::string_view path = take_word(line);
  std::string_view number = trim(line);
  std::int64_t version = 0;
  std::from_chars(number.data(), number.data() + number.size(), version);
  list.versions.emplace_back(path == "." ? "" : path, version);
}

void add_ties(KeyList& list, std::string_view line) {
  std::vector<std::string> group;
  for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) group.emplace_back(word);
  list.ties.push_back(std::move(group));
}

/// The cells of a printed table: two blanks stand between them.
std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (line = trim(line); !line.empty(); line = trim(line)) {
    std::size_t end = std::min(line.find("  "), line.size());
    cells.push_back(trim(line.substr(0, end)));
    line.remove_prefix(end);
  }
  return cells;
}

/// Where the columns of a table of `ckpt ls` or `ckpt zoo keys` stand.
struct TableColumns {
  std::size_t shape = 0;
  std::size_t dtype = 0;
  std::size_t kind = 0;  ///< 0 for none
};

std::optional<TableColumns> columns_of(std::string_view line) {
  std::vector<std::string_view> titles = cells_of(line);
  auto at = [&](std::string_view title) {
    return static_cast<std::size_t>(std::find(titles.begin(), titles.end(), title) - titles.begin());
  };
  TableColumns columns{at("SHAPE"), at("DTYPE"), at("KIND")};
  bool whole = !titles.empty() && titles[0] == "NAME" && columns.shape < titles.size() && columns.dtype < titles.size();
  if (!whole) return std::nullopt;
  if (columns.kind == titles.size()) columns.kind = 0;
  return columns;
}

/// "h.0-11.attn.weight" of a folded table stands for that name with each number; `times` is what the row says, 12.
void add_folded(KeyList& list, const WantedKey& row, std::uint64_t times) {
  constexpr std::uint64_t kMostRows = 1'000'000;
  std::vector<std::string> names = {""};
  for (std::string_view part : core::split(row.key, '.')) {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    const char* end = part.data() + part.size();
    auto dash = std::from_chars(part.data(), end, first);
    bool range = dash.ec == std::errc() && dash.ptr != end && *dash.ptr == '-';
    auto rest = range ? std::from_chars(dash.ptr + 1, end, last) : dash;
    range = range && rest.ec == std::errc() && rest.ptr == end && first <= last && last - first < kMostRows;
    if (range && names.size() * (last - first + 1) > kMostRows) break;
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      std::string start = name.empty() ? "" : name + ".";
      if (!range) longer.push_back(start + std::string(part));
      for (std::uint64_t n = first; range && n <= last; ++n) longer.push_back(start + std::to_string(n));
    }
    names = std::move(longer);
  }
  if (names.size() != times) throw_bad(core::quote(row.key) + " is not " + core::format_count(times) + " names");
  for (const std::string& name : names) list.keys.push_back({name, row.shape, row.dtype, row.kind});
}

/// The count of a folded row, "×12" or "×12, shares 'a'", where it has one.
std::uint64_t times_of(std::string_view cell) {
  constexpr std::string_view kTimes = "\u00d7";
  if (!cell.starts_with(kTimes)) return 1;
  std::uint64_t times = 0;
  for (char c : cell.substr(kTimes.size(), cell.find(", ") - kTimes.size())) {
    if (c >= '0' && c <= '9' && times < (1U << 30)) times = 10 * times + static_cast<std::uint64_t>(c - '0');
  }
  return times;
}

/// The rows below the titles, up to the first line that is not one; "tied: a, b" behind them is taken too.
void parse_table(KeyList& list, const TableColumns& columns, std::string_view text) {
  bool rows = true;
  for (std::string_view line : core::split(text, '\n')) {
    std::vector<std::string_view> cells = cells_of(line);
    bool row = rows && cells.size() > std::max(columns.shape, columns.dtype) && cells[columns.shape].starts_with('[');
    rows = row;
    if (row) {
      WantedKey wanted;
      wanted.key = cells[0];
      wanted.shape = parse_shape(cells[columns.shape]);
      if (!wanted.shape) throw_bad(core::quote(cells[columns.shape]) + " is not a shape");
      wanted.dtype = core::try_parse_dtype(cells[columns.dtype]);
      if (columns.kind > 0 && cells.size() > columns.kind) wanted.kind = parse_kind(cells[columns.kind]);
      std::uint64_t times = times_of(cells.back());
      if (times > 1) {
        add_folded(list, wanted, times);
      } else {
        list.keys.push_back(std::move(wanted));
      }
    } else if (trim(line).starts_with("tied: ")) {
      std::vector<std::string> group;
      for (std::string_view name : core::split(trim(line).substr(6), ',')) group.emplace_back(trim(name));
      list.ties.push_back(std::move(group));
    }
  }
}

void parse_lines(KeyList& list, std::string_view text) {
  std::string_view first = text.substr(0, text.find('\n'));
  if (std::optional<TableColumns> columns = columns_of(first)) {
    return parse_table(list, *columns, text.substr(std::min(first.size() + 1, text.size())));
  }
  while (!text.empty()) {
    std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (line.ends_with("state_dict:")) continue;  // "Model's state_dict:", a heading
    bool special = line.size() > 1 && line[1] == ' ';
    if (line[0] == '#') {
      describe(list, line.substr(1));
    } else if (special && line[0] == '~') {
      add_version(list, line.substr(2));
    } else if (special && line[0] == '=') {
      add_ties(list, line.substr(2));
    } else if (special && line[0] == '-') {
      WantedKey wanted = parse_key_line(line.substr(2));  // without a shape it is an item of somebody's list
      (wanted.shape ? list.unsaved : list.keys).push_back(std::move(wanted));
    } else {
      list.keys.push_back(parse_key_line(line));
    }
  }
}

/// The shape that Python prints behind a key: "': torch.Size([4, 3])", "', (4, 3)". Nothing for anything else.
std::optional<core::Shape> shape_behind(std::string_view text) {
  text = trim(text, " \t\r\n:,");
  if (text.starts_with("torch.Size(")) text.remove_prefix(10);
  while (text.starts_with("([")) text.remove_prefix(1);
  if (!text.starts_with('(') && !text.starts_with('[')) return std::nullopt;
  std::size_t end = text.find_first_of(")]");
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view sizes = trim(text.substr(1, end - 1));
  bool numbers = sizes.find_first_not_of("0123456789, \t") == std::string_view::npos;
  return numbers ? parse_shape(trim(sizes, ", \t")) : std::nullopt;
}

/// Names in quotes, as Python prints lists, dict keys, and dicts or pairs of names with shapes or tensors.
void parse_printed(KeyList& list, std::string_view text) {
  for (std::size_t at = text.find_first_of("'\""); at != std::string_view::npos; at = text.find_first_of("'\"", at)) {
    std::size_t end = text.find(text[at], at + 1);
    if (end == std::string_view::npos) throw_bad("a quote at byte " + std::to_string(at) + " is not closed");
    bool argument = at > 0 && text[at - 1] == '=';  // device='cuda:0' of a printed tensor
    if (!argument) {
      list.keys.push_back({std::string(text.substr(at + 1, end - at - 1)), shape_behind(text.substr(end + 1))});
    }
    at = end + 1;
  }
}

bool is_printed(std::string_view text) {
  constexpr std::array<std::string_view, 9> kStarts = {
      "odict_keys(", "dict_keys(", "odict_items(", "dict_items(", "OrderedDict(", "['", "{'", "[('", "('"};
  return std::any_of(kStarts.begin(), kStarts.end(), [&](std::string_view start) { return text.starts_with(start); });
}

std::optional<core::Shape> json_shape(const JsonView& value) {
  if (!value.is(JsonView::Kind::array)) return std::nullopt;
  core::Shape shape;
  for (const JsonView& size : value.items()) {
    if (!size.is_count()) return std::nullopt;
    shape.push_back(size.as_integer());
  }
  return shape;
}

bool is_text(const JsonView& object, std::string_view key) {
  return object.has(key) && object.at(key).is(JsonView::Kind::text);
}

/// What is known of one key: a shape, an object that has one, or nothing.
WantedKey json_key(std::string_view key, const JsonView& value) {
  WantedKey wanted;
  wanted.key = key;
  const JsonView shape = value.is(JsonView::Kind::object) && value.has("shape") ? value.at("shape") : value;
  wanted.shape = json_shape(shape);
  if (!wanted.shape && shape.is(JsonView::Kind::array))
    throw_bad("the shape of " + core::quote(key) + " is not a shape");
  if (is_text(value, "dtype")) wanted.dtype = core::try_parse_dtype(value.at("dtype").as_text());
  if (is_text(value, "kind")) wanted.kind = parse_kind(value.at("kind").as_text());
  return wanted;
}

void parse_json_list(KeyList& list, const JsonView& items) {
  for (const JsonView& item : items.items()) {
    if (item.is(JsonView::Kind::text)) {
      list.keys.push_back({std::string(item.as_text())});
    } else if (is_text(item, "key") || is_text(item, "name")) {
      list.keys.push_back(json_key(item.at(item.has("key") ? "key" : "name").as_text(), item));
    } else {
      throw_bad("an item of the list is neither a name nor an object with \"name\"");
    }
  }
}

void parse_json_ties(KeyList& list, const JsonView& root) {
  if (!root.has("ties") || !root.at("ties").is(JsonView::Kind::array)) return;
  for (const JsonView& group : root.at("ties").items()) {
    if (!group.is(JsonView::Kind::array)) continue;
    std::vector<std::string> names;
    for (const JsonView& name : group.items()) {
      if (name.is(JsonView::Kind::text)) names.emplace_back(name.as_text());
    }
    list.ties.push_back(std::move(names));
  }
}

void parse_json(KeyList& list, const JsonView& root) {
  if (root.is(JsonView::Kind::array)) return parse_json_list(list, root);
  bool of_files = root.has("files") && root.at("files").is(JsonView::Kind::array);
  if (of_files && root.at("files").items().size() != 1) {
    throw_bad("it lists " + core::format_count(root.at("files").items().size()) + " files where one is expected");
  }
  for (std::string_view known : {"tensors", "state_dict", "keys"}) {
    if (root.has(known) && root.at(known).is(JsonView::Kind::array)) {
      parse_json_list(list, root.at(known));
      return parse_json_ties(list, root);
    }
  }
  if (of_files) return parse_json(list, root.at("files").items().front());
  bool index = root.has("weight_map") && root.at("weight_map").is(JsonView::Kind::object);
  for (const auto& [key, value] : (index ? root.at("weight_map") : root).members()) {
    if (key == "__metadata__") continue;
    list.keys.push_back(json_key(key, value));
  }
}

/// What `ckpt ls --jsonl` and `ckpt zoo keys --jsonl` print: an object a line, the first one about the whole.
bool is_json_lines(std::string_view body) {
  std::size_t end = body.find('\n');
  return end != std::string_view::npos && body.starts_with('{') && trim(body.substr(0, end)).ends_with('}') &&
         body.substr(end + 1).starts_with('{');
}

void parse_json_lines(KeyList& list, std::string_view text) {
  for (std::string_view line : core::split(text, '\n')) {
    if (trim(line).empty()) continue;
    JsonDocument document = JsonDocument::parse(trim(line));
    const JsonView item = document.root();
    if (!is_text(item, "of") || item.at("of").as_text() != "tensors" || !is_text(item, "name")) continue;
    list.keys.push_back(json_key(item.at("name").as_text(), item));
  }
}

void require_sound(const KeyList& list) {
  if (list.keys.empty()) throw_bad("it names no key");
  std::unordered_set<std::string_view> seen;
  for (const WantedKey& wanted : list.keys) {
    if (!seen.insert(wanted.key).second) throw_bad("it names " + core::quote(wanted.key) + " twice");
  }
}

/// Names whose entries are the same view, grouped, in order.
void find_ties(KeyList& list, const std::vector<EntryPtr>& entries) {
  std::unordered_map<const void*, std::vector<std::size_t>> shared;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (const void* identity = storage_identity(*entries[i])) shared[identity].push_back(i);
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto found = shared.find(storage_identity(*entries[i]));
    if (found == shared.end() || found->second.size() < 2 || found->second[0] != i) continue;
    std::vector<std::string> group;
    for (std::size_t other : found->second) {
      if (same_view(*entries[i], *entries[other])) group.push_back(list.keys[other].key);
    }
    if (group.size() > 1) list.ties.push_back(std::move(group));
  }
}

}  // namespace

KeyList parse_key_list(std::string_view text, const std::string& name) {
  return core::with_context(name, [&] {
    KeyList list;
    list.name = name;
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    std::string_view body = trim(text, " \t\r\n");
    if (is_printed(body)) {
      parse_printed(list, body);
    } else if (is_json_lines(body)) {
      parse_json_lines(list, body);
    } else if (body.starts_with('{') || body.starts_with('[')) {
      parse_json(list, JsonDocument::parse(body).root());
    } else {
      parse_lines(list, body);
    }
    require_sound(list);
    return list;
  });
}

KeyList key_list_of(const Dict& state_dict, const std::string& name) {
  KeyList list;
  list.name = name;
  std::vector<EntryPtr> entries;
  for (const auto& [key, value] : state_dict.items) {
    if (!value.is(Value::Kind::tensor)) continue;
    const Entry& entry = value.as_entry();
    list.keys.push_back({step_text(key), value_shape(entry), entry.blocks ? core::DType::f32 : entry.dtype,
                         entry.parameter ? WantedKey::Kind::parameter : WantedKey::Kind::unknown});
    entries.push_back(value.entry_ptr());
  }
  find_ties(list, entries);
  for (const auto& [path, version] : module_versions(state_dict)) {
    if (version != 1) list.versions.emplace_back(path, version);
  }
  return list;
}

KeyList key_list_of(const Checkpoint& checkpoint, const std::string& name, const std::string& at) {
  const StateDictRef chosen = core::with_context(name, [&] { return choose_state_dict(checkpoint.root, at); });
  KeyList list = key_list_of(*chosen.dict, name);
  list.at = chosen.name;
  return list;
}

KeyDifferences compare_keys(const KeyList& have, const KeyList& want) {
  KeyDifferences out;
  std::unordered_map<std::string_view, const WantedKey*> there;
  for (const WantedKey& key : have.keys) there.emplace(key.key, &key);
  std::unordered_set<std::string_view> wanted;
  for (const WantedKey& key : want.keys) {
    wanted.insert(key.key);
    auto found = there.find(key.key);
    if (found == there.end()) {
      out.missing.push_back(key.key);
      continue;
    }
    const WantedKey& other = *found->second;
    if (key.shape && other.shape && *key.shape != *other.shape) {
      out.shapes.push_back(key.key + ": " + core::to_list(*other.shape) + " where " + core::to_list(*key.shape) +
                           " is wanted");
    }
    if (key.dtype && other.dtype && *key.dtype != *other.dtype) {
      out.dtypes.push_back(key.key + ": " + std::string(core::name(*other.dtype)) + " where " +
                           std::string(core::name(*key.dtype)) + " is wanted");
    }
  }
  for (const WantedKey& key : have.keys) {
    if (!wanted.contains(key.key)) out.unexpected.push_back(key.key);
  }
  if (out.missing.empty() && out.unexpected.empty()) {
    out.order = !std::equal(have.keys.begin(), have.keys.end(), want.keys.begin(), want.keys.end(),
                            [](const WantedKey& a, const WantedKey& b) { return a.key == b.key; });
  }
  return out;
}

}  // namespace ckpt
