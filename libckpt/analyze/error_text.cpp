#include "libckpt/analyze/error_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>

#include "libcore/base/load_rules.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using FactKind = ErrorFacts::Kind;

constexpr std::string_view kSpace = " \t\r\n";

void skip_space(std::string_view& text, std::string_view what = kSpace) {
  text.remove_prefix(std::min(text.find_first_not_of(what), text.size()));
}

/// The text behind the first `marker`, or nothing.
std::optional<std::string_view> behind(std::string_view text, std::string_view marker) {
  std::size_t at = text.find(marker);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + marker.size());
}

/// Up to `end`, or all of it.
std::string_view until(std::string_view text, std::string_view end) {
  return text.substr(0, std::min(text.find(end), text.size()));
}

void add(ErrorFacts& facts, FactKind kind) {
  if (!facts.has(kind)) facts.kinds.push_back(kind);
}

/// Names in quotes with commas between: "a", "b" or ['a', 'b'] or {'a', 'b'}.
std::vector<std::string> quoted_names(std::string_view text) {
  std::vector<std::string> names;
  skip_space(text, " \t\r\n[{(\\");
  if (text.starts_with("\"{") || text.starts_with("\"[")) text.remove_prefix(2);  // PyTorch 0.3 quotes the whole list
  while (!text.empty() && (text[0] == '"' || text[0] == '\'')) {
    std::size_t end = text.find(text[0], 1);
    if (end == std::string_view::npos) break;
    std::string_view name = text.substr(1, end - 1);
    if (name.ends_with('\\')) name.remove_suffix(1);  // the repr of an exception escapes its quotes
    names.emplace_back(name);
    text.remove_prefix(end + 1);
    skip_space(text, " \t\r\n,\\");
  }
  return names;
}

/// Names without quotes with commas between, up to the end of the line (MMCV and MMEngine).
std::vector<std::string> plain_names(std::string_view text) {
  std::vector<std::string> names;
  for (std::string_view part : core::split(until(text, "\n"), ',')) {
    skip_space(part);
    part = part.substr(0, part.find_last_not_of(kSpace) + 1);
    if (!part.empty() && part.find(' ') == std::string_view::npos) names.emplace_back(part);
  }
  return names;
}

void append(std::vector<std::string>& all, std::vector<std::string> more) {
  for (std::string& name : more) all.push_back(std::move(name));
}

/// Every place where `marker` stands, each with the list behind it.
void read_lists(ErrorFacts& facts, std::string_view text, std::string_view marker, std::vector<std::string>& out,
                bool quoted) {
  for (auto rest = behind(text, marker); rest; rest = behind(*rest, marker)) {
    std::vector<std::string> names = quoted ? quoted_names(*rest) : plain_names(*rest);
    if (names.empty()) continue;
    append(out, std::move(names));
    add(facts, FactKind::keys);
  }
}

std::optional<core::Shape> shape_at(std::string_view& text) {
  auto list = behind(text, "torch.Size([");
  if (!list) return std::nullopt;
  std::string_view sizes = until(*list, "]");
  text = list->substr(sizes.size());
  core::Shape shape;
  for (std::string_view part : core::split(sizes, ',')) {
    skip_space(part);
    std::int64_t size = 0;
    if (part.empty() || std::from_chars(part.data(), part.data() + part.size(), size).ec != std::errc()) continue;
    shape.push_back(size);
  }
  return shape;
}

/// How one release or library words a mismatch: what stands before the key, what behind it, and which shape is first.
struct MismatchText {
  std::string_view before;
  std::string_view after;
  bool file_first;
};
constexpr std::array kMismatches = {
    MismatchText{"size mismatch for ", ": copying a param", true},
    MismatchText{"While copying the parameter named ", ", whose dimensions in the model", false},
    MismatchText{"\n- ", ": found shape", true},
};

void read_mismatches(ErrorFacts& facts, std::string_view text) {
  for (const MismatchText& form : kMismatches) {
    for (auto rest = behind(text, form.before); rest; rest = behind(*rest, form.before)) {
      std::string_view line = until(*rest, "\n");
      std::size_t at = line.find(form.after);
      if (at == std::string_view::npos) continue;
      std::string_view key = line.substr(0, at);
      while (!key.empty() && (key[0] == '"' || key[0] == '\'')) key.remove_prefix(1);
      while (!key.empty() && (key.back() == '"' || key.back() == '\'')) key.remove_suffix(1);
      std::string_view shapes = line.substr(at);
      std::optional<core::Shape> first = shape_at(shapes);
      std::optional<core::Shape> second = shape_at(shapes);
      if (!first || !second || key.empty()) continue;
      if (!form.file_first) std::swap(first, second);
      facts.mismatched.push_back({std::string(key), *first, *second});
      add(facts, FactKind::keys);
    }
  }
}

/// "h.{0, 1}.bias" or "h.{0...11}.bias" as the report of transformers 5 folds them, unfolded. At most `kMost` names.
std::vector<std::string> unfold(std::string_view name) {
  constexpr std::int64_t kMost = 4096;
  std::size_t open = name.find('{');
  std::size_t close = name.find('}', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return {std::string(name)};
  std::string_view inside = name.substr(open + 1, close - open - 1);
  std::vector<std::string> choices;
  if (std::size_t dots = inside.find("..."); dots != std::string_view::npos) {
    std::int64_t first = 0;
    std::int64_t last = -1;
    std::from_chars(inside.data(), inside.data() + dots, first);
    std::from_chars(inside.data() + dots + 3, inside.data() + inside.size(), last);
    for (std::int64_t i = first; i <= std::min(last, first + kMost); ++i) choices.push_back(std::to_string(i));
  } else {
    choices = plain_names(inside);
  }
  std::vector<std::string> names;
  for (const std::string& choice : choices) {
    names.push_back(std::string(name.substr(0, open)) + choice + std::string(name.substr(close + 1)));
  }
  return names;
}

std::string_view trimmed(std::string_view text) {
  skip_space(text);
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

/// The table of transformers 5: "key | UNEXPECTED | ..." a line.
void read_load_report(ErrorFacts& facts, std::string_view text) {
  if (text.find("LOAD REPORT") == std::string_view::npos) return;
  for (std::string_view line : core::split(text, '\n')) {
    std::vector<std::string_view> cells = core::split(line, '|');
    if (cells.size() < 2) continue;
    std::string_view status = trimmed(cells[1]);
    bool missing = status.find("MISSING") != std::string_view::npos;
    if (!missing && status.find("UNEXPECTED") == std::string_view::npos) continue;
    append(missing ? facts.missing : facts.unexpected, unfold(trimmed(cells[0])));
    add(facts, FactKind::keys);
  }
}

void read_keys(ErrorFacts& facts, std::string_view text) {
  read_lists(facts, text, "Missing key(s) in state_dict:", facts.missing, true);
  read_lists(facts, text, "Unexpected key(s) in state_dict:", facts.unexpected, true);
  read_lists(facts, text, "missing keys in state_dict:", facts.missing, true);
  read_lists(facts, text, "missing_keys=", facts.missing, true);
  read_lists(facts, text, "unexpected_keys=", facts.unexpected, true);
  read_lists(facts, text, "unexpected key ", facts.unexpected, true);
  read_lists(facts, text, "unexpected key in source state_dict:", facts.unexpected, false);
  read_lists(facts, text, "missing keys in source state_dict:", facts.missing, false);
  for (auto rest = behind(text, "were not used when initializing"); rest;
       rest = behind(*rest, "were not used when initializing")) {
    append(facts.unexpected, quoted_names(behind(*rest, ":").value_or("")));
    add(facts, FactKind::keys);
  }
  for (auto rest = behind(text, "newly initialized:"); rest; rest = behind(*rest, "newly initialized:")) {
    append(facts.missing, quoted_names(*rest));
    add(facts, FactKind::keys);
  }
  read_load_report(facts, text);
  read_mismatches(facts, text);
  if (auto model = behind(text, "in loading state_dict for ")) facts.model = until(until(*model, ":"), "\n");
}

std::optional<std::int64_t> number_behind(std::string_view text, std::string_view marker) {
  auto rest = behind(text, marker);
  if (!rest) return std::nullopt;
  std::int64_t value = 0;
  if (std::from_chars(rest->data(), rest->data() + rest->size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

void read_device(ErrorFacts& facts, std::string_view text) {
  auto rest = behind(text, "Attempting to deserialize object on ");
  if (!rest && text.find("don't know how to restore data location") == std::string_view::npos) return;
  add(facts, FactKind::device);
  facts.device = number_behind(rest.value_or(""), "CUDA device ");
  facts.devices = number_behind(rest.value_or(""), "device_count() is ");
}

void read_globals(ErrorFacts& facts, std::string_view text) {
  constexpr std::string_view kGlobal = "Unsupported global: GLOBAL ";
  std::unordered_set<std::string> seen(facts.globals.begin(), facts.globals.end());
  for (auto rest = behind(text, kGlobal); rest; rest = behind(*rest, kGlobal)) {
    std::string name(until(until(*rest, " "), "\n"));
    if (seen.insert(name).second) facts.globals.push_back(name);
    add(facts, FactKind::globals);
  }
  constexpr std::string_view kMissing = "Can't get attribute '";
  for (auto rest = behind(text, kMissing); rest; rest = behind(*rest, kMissing)) {
    facts.globals.emplace_back(until(*rest, "'"));
    add(facts, FactKind::globals);
  }
  if (auto module = behind(text, "ModuleNotFoundError: No module named '")) {
    facts.globals.emplace_back(until(*module, "'"));
    add(facts, FactKind::globals);
  }
}

void read_load_key(ErrorFacts& facts, std::string_view text) {
  if (auto rest = behind(text, "invalid load key, '")) {
    facts.load_key = until(*rest, "'");
    add(facts, FactKind::load_key);
  } else if (auto code = number_behind(text, "Unsupported operand ")) {
    facts.load_key = std::string(1, static_cast<char>(*code));
    add(facts, FactKind::load_key);
  }
}

void read_dtype(ErrorFacts& facts, std::string_view text) {
  constexpr std::array<std::string_view, 6> kForms = {"unsupported ScalarType ", "KeyError: 'F8_",
                                                      "unknown variant `",       "has no attribute 'float8",
                                                      "data type 'bfloat16",     "not implemented for 'Float8"};
  constexpr std::array<std::string_view, 6> kNames = {"", "F8_", "", "float8", "bfloat16", "Float8"};
  for (std::size_t i = 0; i < kForms.size(); ++i) {
    auto rest = behind(text, kForms[i]);
    if (!rest) continue;
    std::size_t end = rest->find_first_of("'`\"\n ,");
    facts.dtype = std::string(kNames[i]) + std::string(rest->substr(0, std::min(end, rest->size())));
    add(facts, FactKind::dtype);
    return;
  }
}

/// Complaints that a fixed text tells.
struct Marker {
  std::string_view text;
  FactKind kind;
};
constexpr std::array kMarkers = {
    Marker{"HeaderTooLarge", FactKind::header_too_large},
    Marker{"header too large", FactKind::header_too_large},
    Marker{"InvalidHeaderDeserialization", FactKind::header_too_large},
    Marker{"HeaderTooSmall", FactKind::cut},
    Marker{"header too small", FactKind::cut},
    Marker{"InvalidHeaderLength", FactKind::cut},
    Marker{"invalid header length", FactKind::cut},
    Marker{"MetadataIncompleteBuffer", FactKind::cut},
    Marker{"incomplete metadata", FactKind::cut},
    Marker{"Ran out of input", FactKind::cut},
    Marker{"unexpected EOF", FactKind::cut},
    Marker{"file read failed", FactKind::cut},
    Marker{"failed finding central directory", FactKind::zip_directory},
    Marker{"invalid header or archive is corrupted", FactKind::zip_directory},
    Marker{"different number of parameter groups", FactKind::optimizer_groups},
    Marker{"contains a parameter group that doesn't match", FactKind::optimizer_groups},
    Marker{"Some tensors share memory", FactKind::shared_memory},
    Marker{"Expected state_dict to be dict-like", FactKind::not_a_dict},
    Marker{"object has no attribute 'copy'", FactKind::not_a_dict},
    Marker{"object has no attribute 'state_dict'", FactKind::not_a_dict},
    Marker{"Weights only load failed", FactKind::globals},
    Marker{"must match the size of tensor", FactKind::shape},
};

}  // namespace

namespace {

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

bool can_be_quoted(const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.find_first_of("\"'\\\n") == std::string::npos; });
}

/// What PyTorch says where a message is about one thing, which is not keys.
std::string text_without_keys(const ErrorFacts& facts) {
  if (facts.kinds == std::vector{FactKind::optimizer_groups})
    return "loaded state dict contains a parameter group that doesn't match the size of optimizer's group";
  bool dtype = facts.kinds == std::vector{FactKind::dtype} && can_be_quoted({facts.dtype});
  return dtype ? "unsupported ScalarType " + facts.dtype : "";
}

}  // namespace

std::string short_error_text(const ErrorFacts& facts) {
  if (!facts.has(FactKind::keys)) return text_without_keys(facts);
  bool keys_alone =
      facts.kinds == std::vector{FactKind::keys} && can_be_quoted(facts.missing) && can_be_quoted(facts.unexpected);
  if (!keys_alone) return "";
  std::string text;
  if (!facts.model.empty()) text += "Error(s) in loading state_dict for " + facts.model + ": ";
  if (!facts.missing.empty()) text += "Missing key(s) in state_dict: " + quoted_list(facts.missing) + ". ";
  if (!facts.unexpected.empty()) text += "Unexpected key(s) in state_dict: " + quoted_list(facts.unexpected) + ". ";
  for (const ErrorFacts::Mismatch& mismatch : facts.mismatched) {
    text += core::size_mismatch_text(mismatch.key, mismatch.in_file, mismatch.in_model) + " ";
  }
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

bool ErrorFacts::has(FactKind kind) const {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

ErrorFacts parse_error_text(std::string_view text) {
  ErrorFacts facts;
  read_keys(facts, text);
  read_device(facts, text);
  read_globals(facts, text);
  read_load_key(facts, text);
  read_dtype(facts, text);
  for (const Marker& marker : kMarkers) {
    bool said = text.find(marker.text) != std::string_view::npos;
    // The text about weights_only also stands around other troubles of the pickle.
    if (said && !(marker.kind == FactKind::globals && facts.has(FactKind::load_key))) add(facts, marker.kind);
  }
  facts.known = facts.keys() ? nullptr : find_known_message(text);
  if (facts.known != nullptr) add(facts, FactKind::known);
  return facts;
}

}  // namespace ckpt
