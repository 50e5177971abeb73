#include "tools/ckpt/help/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "libckpt/analyze/plain_values.h"
#include "libckpt/format/format.h"
#include "libckpt/open_save.h"
#include "libckpt/state_dicts.h"
#include "libcore/base/dtype.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/help/help.h"
#include "zoo/manifest/manifest.h"
#include "zoo/rules/rule_packs.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using Candidate = Completion::Candidate;

constexpr std::size_t kMaxKeys = 1000;

/// Where the cursor is: the command so far, the words it was given, what is being typed.
struct Cursor {
  const CLI::App* command;
  std::vector<std::string> given;                ///< words behind the command that are no options of it
  const CLI::Option* option_of_value = nullptr;  ///< the option whose value is being typed
  std::string word;
};

const CLI::App* find_subcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->check_name(name)) return command;
  }
  return nullptr;
}

const CLI::Option* find_option(const CLI::App& command, const std::string& word) {
  for (const CLI::Option* option : options_of(command)) {
    if (option->check_name(word)) return option;
  }
  return nullptr;
}

bool takes_value(const CLI::Option& option) {
  return option.get_type_size() != 0;
}

Cursor find_cursor(const CLI::App& app, const std::vector<std::string>& words) {
  Cursor cursor{&app, {}, nullptr, words.empty() ? "" : words.back()};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (cursor.option_of_value != nullptr) {
      cursor.option_of_value = nullptr;
      continue;
    }
    const CLI::Option* option = words[i].starts_with('-') ? find_option(*cursor.command, words[i]) : nullptr;
    if (option != nullptr && takes_value(*option)) cursor.option_of_value = option;
    if (words[i].starts_with('-') && words[i] != "-") continue;
    const CLI::App* below = cursor.given.empty() ? find_subcommand(*cursor.command, words[i]) : nullptr;
    if (below != nullptr) {
      cursor.command = below;
    } else {
      cursor.given.push_back(words[i]);
    }
  }
  return cursor;
}

std::vector<Candidate> commands(const CLI::App& app) {
  std::vector<Candidate> out;
  for (const CLI::App* command : subcommands(app)) out.push_back({command->get_name(), summary_of(*command)});
  return out;
}

std::vector<Candidate> options(const CLI::App& command) {
  std::vector<Candidate> out;
  for (const CLI::Option* option : options_of(command)) {
    for (const std::string& name : option->get_lnames()) out.push_back({"--" + name, option->get_description()});
    for (const std::string& name : option->get_snames()) out.push_back({"-" + name, option->get_description()});
  }
  return out;
}

std::vector<Candidate> texts(std::string_view list) {
  std::vector<Candidate> out;
  for (std::string_view text : core::split(list, ' ')) out.push_back({std::string(text)});
  return out;
}

std::vector<Candidate> writable_formats() {
  std::vector<Candidate> out;
  for (const ckpt::Format* format : ckpt::formats()) {
    if (format->write != nullptr) out.push_back({std::string(format->name), std::string(format->title)});
  }
  return out;
}

/// A file's structure, without its tensors; empty for anything that cannot be read.
ckpt::Checkpoint try_open(const std::string& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  try {
    return ckpt::open(file, {.lenient = true, .foreign_objects = true});
  } catch (const std::exception&) {
    return {};
  }
}

/// "best.pth::mo" -> "best.pth::model".
std::vector<Candidate> places(const std::string& word) {
  std::string file = word.substr(0, word.rfind("::"));
  std::vector<Candidate> out;
  for (const ckpt::StateDictRef& dict : ckpt::list_state_dicts(try_open(file).root)) {
    bool loadable = dict.kind != ckpt::StateDictKind::optimizer && !dict.in_object;
    if (loadable && !dict.name.empty())
      out.push_back({file + "::" + dict.name, core::format_count(dict.tensors) + " tensors"});
  }
  return out;
}

std::vector<Candidate> candidates(const std::set<std::string>& names) {
  std::vector<Candidate> out;
  for (const std::string& name : names) out.push_back({name});
  return out;
}

/// Keys of the first file on the line, up to the dot behind what is typed and then `more`, so that a list stays short.
std::vector<Candidate> keys(const Cursor& cursor, std::string_view more) {
  std::set<std::string> found;
  for (const std::string& file : cursor.given) {
    for (const ckpt::NamedEntry& entry : ckpt::list_entries(try_open(file).root)) {
      if (!entry.name.starts_with(cursor.word)) continue;
      std::size_t dot = entry.name.find('.', cursor.word.size());
      found.insert(dot == std::string::npos ? entry.name : entry.name.substr(0, dot) + std::string(more));
      if (found.size() >= kMaxKeys) break;
    }
    if (!found.empty()) break;
  }
  return candidates(found);
}

/// The same for the plain values of the file, each with `behind` behind it.
std::vector<Candidate> value_keys(const Cursor& cursor, std::string_view behind) {
  std::set<std::string> found;
  if (cursor.given.empty()) return {};
  for (const ckpt::NamedValue& value : ckpt::list_plain_values(try_open(cursor.given.front()).root)) {
    if (!value.name.starts_with(cursor.word)) continue;
    std::size_t dot = value.name.find('.', cursor.word.size());
    found.insert(dot == std::string::npos ? value.name + std::string(behind) : value.name.substr(0, dot + 1));
    if (found.size() >= kMaxKeys) break;
  }
  return candidates(found);
}

bool is_checkpoint_name(const std::string& name) {
  static constexpr std::string_view kMore[] = {".json", ".toml", ".txt", ".bin", ".npy", ".tar"};
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  auto ends = [&](std::string_view extension) { return lower.ends_with(extension); };
  for (const ckpt::Format* format : ckpt::formats()) {
    if (std::any_of(format->extensions.begin(), format->extensions.end(), ends)) return true;
  }
  return std::any_of(std::begin(kMore), std::end(kMore), ends);
}

enum class Wanted { checkpoints, any_files };

/// Folders, and the files whose names say checkpoint; all files where there is none, or where any are wanted.
std::vector<Candidate> files(const std::string& word, Wanted wanted = Wanted::checkpoints) {
  std::size_t slash = word.rfind('/');
  std::string folder = slash == std::string::npos ? "" : word.substr(0, slash + 1);
  std::string name_start = word.substr(folder.size());
  std::string real = folder.empty() ? "." : folder;
  const char* home = std::getenv("HOME");
  if (real.starts_with("~/") && home != nullptr) real = home + real.substr(1);
  std::vector<Candidate> known;
  std::vector<Candidate> others;
  std::vector<Candidate> folders;
  std::error_code error;
  for (fs::directory_iterator at(real, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!name.starts_with(name_start) || (name.starts_with('.') && name_start.empty())) continue;
    std::error_code ignored;
    bool is_folder = at->is_directory(ignored);
    std::vector<Candidate>& list = is_folder ? folders : is_checkpoint_name(name) ? known : others;
    list.push_back({folder + name + (is_folder ? "/" : "")});
  }
  if (known.empty() || wanted == Wanted::any_files) known.insert(known.end(), others.begin(), others.end());
  known.insert(known.end(), folders.begin(), folders.end());
  std::sort(known.begin(), known.end(), [](const Candidate& a, const Candidate& b) { return a.text < b.text; });
  return known;
}

std::vector<Candidate> dtypes() {
  std::vector<Candidate> out;
  for (int i = 0; i < core::kDTypeCount; ++i) {
    auto dtype = static_cast<core::DType>(i);
    out.push_back({std::string(core::name(dtype)), std::string(core::short_name(dtype))});
  }
  return out;
}

std::vector<Candidate> models() {
  std::vector<Candidate> out;
  for (const zoo::ManifestInfo& model : zoo::list_manifests()) out.push_back({model.name, model.reference});
  return out;
}

std::vector<Candidate> rule_packs() {
  std::vector<Candidate> out;
  for (const ckpt::RulePack& pack : zoo::rule_packs()) out.push_back({pack.name, pack.from + " to " + pack.to});
  return out;
}

void append(std::vector<Candidate>& to, std::vector<Candidate> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Values that one word of --help stands for, where they can be listed.
std::optional<std::vector<Candidate>> listed(const CLI::App& app, const Cursor& cursor, const std::string& what) {
  if (what == "SHELL") return texts("bash zsh fish");
  if (what == "COMMAND") return commands(app);
  if (what == "ORDER") return texts("file name size numel dtype");
  if (what == "WHEN") return texts("auto always never");
  if (what == "CODEC") return texts("none zstd tight fast gzip");
  if (what == "DEV") return texts("cpu cuda:0 cuda:1 meta mps");
  if (what == "DTYPE") return dtypes();
  if (what == "PREFIX") return texts("module. _orig_mod. model. backbone. encoder.");
  if (what == "GLOB" || what == "SELECTOR") return keys(cursor, ".*");
  const bool of_values = cursor.command->get_name() == "set";
  if (what == "KEY") return of_values ? value_keys(cursor, "") : keys(cursor, ".");
  if (what == "KEY=VALUE") return value_keys(cursor, "=");
  static constexpr std::string_view kFree[] = {"N",   "SIZE",     "TEXT",    "X",     "LIST",  "KEYS",  "P",
                                               "A=B", "KEY=TEXT", "OLD=NEW", "SLICE", "WHICH", "W,...", "DECAY"};
  if (std::find(std::begin(kFree), std::end(kFree), what) != std::end(kFree)) return std::vector<Candidate>();
  return std::nullopt;
}

/// Values of an option ("" for a positional) by its name and the name its value has in --help; files for all others.
Completion values(const CLI::App& app, const Cursor& cursor, const std::string& option, const std::string& what) {
  bool in_zoo = cursor.command->get_parent() != nullptr && cursor.command->get_parent()->get_name() == "zoo";
  if (option == "--format") return {writable_formats()};
  if (option.empty() && in_zoo && cursor.command->get_name() == "rules") return {rule_packs()};
  if (option.empty() && in_zoo && (what == "NAME" || what == "GLOB")) return {models()};
  Completion all;
  if (option == "--for") {
    all.candidates = models();
  } else if (what == "RULES") {
    all.candidates = rule_packs();
  } else if (std::optional<std::vector<Candidate>> list = listed(app, cursor, what)) {
    return {std::move(*list)};
  }
  bool inside = cursor.word.find("::") != std::string::npos;
  all.files = !inside && (all.candidates.empty() || what == "RULES");
  constexpr std::array<std::string_view, 4> kAny = {"--input", "--labels", "--vocabulary", "--cacert"};
  const bool any = std::find(kAny.begin(), kAny.end(), option) != kAny.end();
  append(all.candidates,
         inside ? places(cursor.word) : files(cursor.word, any ? Wanted::any_files : Wanted::checkpoints));
  return all;
}

/// The name of the positional that is being typed.
std::string positional_name(const Cursor& cursor) {
  std::vector<const CLI::Option*> all = positionals_of(*cursor.command);
  if (all.empty()) return "";
  const CLI::Option& option = *all[std::min(cursor.given.size(), all.size() - 1)];
  return option.get_type_name().empty() ? option.get_name(true) : option.get_type_name();
}

}  // namespace

Completion complete(const CLI::App& app, const std::vector<std::string>& words) {
  Cursor cursor = find_cursor(app, words);
  Completion all;
  if (cursor.option_of_value != nullptr) {
    all = values(app, cursor, cursor.option_of_value->get_name(), cursor.option_of_value->get_type_name());
  } else if (cursor.word.starts_with('-')) {
    all.candidates = options(*cursor.command);
  } else if (!subcommands(*cursor.command).empty() && cursor.given.empty()) {
    all.candidates = commands(*cursor.command);
  } else if (!positionals_of(*cursor.command).empty()) {
    all = values(app, cursor, "", positional_name(cursor));
  }
  std::erase_if(all.candidates, [&](const Candidate& c) { return !c.text.starts_with(cursor.word); });
  return all;
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash") {
    return R"sh(# bash completion of ckpt: eval "$(ckpt completion bash)"
_ckpt() {
  local line=${COMP_LINE:0:COMP_POINT} words reply cur
  read -a words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  cur=${words[-1]}
  mapfile -t reply < <("${words[0]}" completion bash -- "${words[@]:1}" 2>/dev/null)
  [[ ${reply[0]} == files ]] && compopt -o filenames
  COMPREPLY=("${reply[@]:1}")
  # Readline breaks words at ':' and '=' and replaces only what stands behind the last of them.
  local broken=${cur%"${cur##*[:=]}"}
  [[ $broken ]] && COMPREPLY=("${COMPREPLY[@]#"$broken"}")
}
complete -F _ckpt ckpt
)sh";
  }
  if (shell == "zsh") {
    return R"sh(#compdef ckpt
# zsh completion of ckpt: eval "$(ckpt completion zsh)", or a file _ckpt in $fpath
_ckpt() {
  local -a lines texts shown
  local line
  lines=("${(@f)$(${words[1]} completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "${lines[@]}"; do
    [[ -z $line ]] && continue
    texts+=("${line%%$'\t'*}")
    shown+=("${line%%$'\t'*}${${line#*$'\t'}:+  -- ${line#*$'\t'}}")
  done
  (( ${#texts} )) || return 1
  local -a ends
  ends=("${(@M)texts:#*/}")
  if (( ${#ends} )); then compadd -U -S '' -- "${ends[@]}"; fi
  local -a plain_texts plain_shown
  local i
  for i in {1..${#texts}}; do
    [[ ${texts[i]} == */ ]] && continue
    plain_texts+=("${texts[i]}")
    plain_shown+=("${shown[i]}")
  done
  compadd -U -l -d plain_shown -- "${plain_texts[@]}"
}
if [[ ${funcstack[1]} == _ckpt ]]; then _ckpt "$@"; else compdef _ckpt ckpt; fi
)sh";
  }
  if (shell == "fish") {
    return R"sh(# fish completion of ckpt: ckpt completion fish | source
function __ckpt_complete
  set -l words (commandline -opc) (commandline -ct)
  $words[1] completion fish -- $words[2..-1] 2>/dev/null
end
complete -c ckpt -f -a '(__ckpt_complete)'
)sh";
  }
  throw core::Error(core::ErrorCode::usage, "no completion for " + core::quote(shell) + "; use bash, zsh or fish");
}

namespace {

/// Keys come from files. What no line can show, or what bash would put into the command line as it is and then run, is
/// not offered; names of files bash quotes by itself, and zsh and fish quote all words.
bool is_offered(const std::string& shell, const Completion& completion, const std::string& text) {
  constexpr std::string_view kSpecial = " \t\n'\"\\$`;&|<>(){}#!~";
  bool raw = shell == "bash" && !completion.files;
  if (raw && text.find_first_of(kSpecial) != std::string::npos) return false;
  std::string shown = text;
  std::erase(shown, '\\');  // which printable() doubles
  return core::printable(shown) == shown;
}

}  // namespace

std::string completion_reply(const std::string& shell, const Completion& completion) {
  std::string out = shell == "bash" ? (completion.files ? "files\n" : "words\n") : "";
  for (const Candidate& candidate : completion.candidates) {
    if (!is_offered(shell, completion, candidate.text)) continue;
    out += candidate.text;
    if (shell != "bash") out += "\t" + candidate.description;
    out += "\n";
  }
  return out;
}

}  // namespace cli
