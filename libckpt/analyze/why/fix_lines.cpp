// A plan as one command and as one line of Python.

#include <algorithm>
#include <array>
#include <filesystem>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/analyze/why/fix.h"
#include "libckpt/analyze/why/python_line.h"
#include "libckpt/io/remote_name.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using Step = FixStep::Kind;

constexpr std::size_t kMaxGlobs = 4;
constexpr std::size_t kMaxTies = 16;
constexpr std::size_t kLongestSpecial = 2000;  // a line that is longer says less than `ckpt fix`

bool converts(const Diagnosis& diagnosis) {
  const std::vector<FixStep>& steps = diagnosis.plan.steps;
  return std::any_of(steps.begin(), steps.end(), [](const FixStep& step) { return step.kind == Step::convert; });
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return text.ends_with(end); });
}

/// "best.pkl", "best.tar" and "best" -> "best.pth": every command writes a file of this extension. What says a
/// format already stays as it is.
std::string with_known_extension(const Diagnosis& diagnosis, const std::string& path) {
  if (ends_with_any(path, {".pth", ".pt", ".bin", ".ckpt", ".safetensors", ".npz", ".npy", ".h5", ".hdf5", ".gguf",
                           ".pth.tar"})) {
    return path;
  }
  std::filesystem::path name = path;
  if (ends_with_any(path,
                    {".pt.tar", ".pkl", ".pickle", ".tar", ".t7", ".th", ".onnx", ".msgpack", ".pt2", ".pdparams"})) {
    name.replace_extension();
  }
  if (ends_with_any(name.string(), {".pth", ".pt"})) name.replace_extension();
  return name.string() + (diagnosis.format.starts_with("safetensors") ? ".safetensors" : ".pth");
}

/// "best.pth" -> "best.fixed.pth"; of an index the name of the single file.
std::string output_name(const Diagnosis& diagnosis) {
  std::string path = diagnosis.path == "-" ? "standard_input" : diagnosis.path;
  if (is_remote_name(path)) path.resize(std::min(path.find('?'), path.size()));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (is_remote_name(path)) path.erase(0, path.rfind('/') + 1);
  constexpr std::string_view kIndex = ".index.json";
  if (path.size() > kIndex.size() && path.ends_with(kIndex)) path.resize(path.size() - kIndex.size());
  path = with_known_extension(diagnosis, path);
  std::size_t slash = path.rfind('/');
  std::size_t dot = path.ends_with(".pth.tar") ? path.size() - 8 : path.rfind('.');
  bool extension = dot != std::string::npos && dot > 0 && (slash == std::string::npos || dot > slash + 1);
  std::string stem = extension ? path.substr(0, dot) : path;
  std::string end = extension ? path.substr(dot) : ".pth";
  // Behind .ckpt our own format would be written.
  if (converts(diagnosis) || (end == ".ckpt" && diagnosis.format.starts_with("torch"))) end = ".pth";
  std::error_code ignored;
  std::string name = stem + "." + diagnosis.tag + end;
  constexpr int kMaxNumbers = 1000;
  for (int i = 2; i < kMaxNumbers && std::filesystem::exists(std::filesystem::symlink_status(name, ignored)); ++i) {
    name = stem + "." + diagnosis.tag + std::to_string(i) + end;
  }
  return name;
}

/// "best.pth::model".
std::string address(const std::string& path, const std::string& at) {
  return at.empty() ? path : path + "::" + at;
}

/// Only the last "::" of a word parts the file from the place in it.
bool can_be_named(const std::string& at) {
  return at.find("::") == std::string::npos && !at.starts_with(':');
}

/// What one command reads and writes.
struct Files {
  std::string program;
  std::string input;   ///< with "::place" where there is one
  std::string output;  ///< "" to change the input itself
};

/// A command that does one thing to the file; its options come between.
class SpecialCommand {
 public:
  SpecialCommand(const Files& files, std::string_view name) : files_(files), line_(files.program) { line_.word(name); }
  SpecialCommand& word(std::string_view text) {
    line_.word(text);
    return *this;
  }
  SpecialCommand& option(std::string_view name, std::string_view value) {
    line_.option(name, value);
    return *this;
  }
  std::string text() {
    line_.file(files_.input);
    files_.output.empty() ? line_.word("--in-place") : line_.file_option("-o", files_.output);
    return line_.is_exact() ? line_.text() : "";
  }

 private:
  const Files& files_;
  ShellCommand line_;
};

std::string rename_command(const Files& files, const KeyRule& rule) {
  if (rule.kind == KeyRule::Kind::wrappers) return SpecialCommand(files, "strip-prefix").word("--wrappers").text();
  // The commands take whole components that are not nothing.
  if (rule.kind != KeyRule::Kind::prefix || rule.from.empty() == rule.to.empty()) return "";
  const std::string& prefix = rule.to.empty() ? rule.from : rule.to;
  if (!prefix.ends_with('.') || prefix == ".") return "";
  return SpecialCommand(files, rule.to.empty() ? "strip-prefix" : "add-prefix").option("--prefix", prefix).text();
}

std::string select_command(const Diagnosis& diagnosis, const Files& files, const FixStep& step) {
  bool empty = std::find(step.keys.begin(), step.keys.end(), "") != step.keys.end();
  if (empty || diagnosis.plan.reaches || step.keys.size() > kMaxGlobs) return "";
  SpecialCommand line(files, "select");
  for (const std::string& key : step.keys) line.option("--exclude", selector_of(key));
  return line.text();
}

std::string take_command(const Diagnosis& diagnosis, const Files& files, const FixStep& step) {
  bool first = &step == &diagnosis.plan.steps.front() && diagnosis.plan.at.empty() && diagnosis.at.empty();
  if (!first || step.at.empty() || !can_be_named(step.at)) return "";
  ShellCommand line(files.program);
  line.word("convert").file(address(diagnosis.path, step.at)).file(files.output);
  return line.is_exact() ? line.text() : "";
}

std::string cast_command(const Files& files, const FixStep& step) {
  SpecialCommand line(files, "cast");
  for (const std::string& dtype : step.keys) line.option("--from", dtype);
  return line.option("--to", step.to).text();
}

/// The special command of a step, "" when it has none.
std::string step_command(const Diagnosis& diagnosis, const Files& files, const FixStep& step) {
  switch (step.kind) {
    case Step::rename:
      return rename_command(files, step.rule);
    case Step::drop:
      return select_command(diagnosis, files, step);
    case Step::take:
      return take_command(diagnosis, files, step);
    case Step::remap:
      return SpecialCommand(files, "remap").option("--to", step.to).text();
    case Step::cast:
      return cast_command(files, step);
    case Step::convert: {
      ShellCommand line(files.program);
      line.word("convert").file(files.input).file(files.output);
      return line.is_exact() && !files.output.empty() ? line.text() : "";
    }
    case Step::rules: {
      SpecialCommand line(files, "rename");
      line.option("--rules", step.at);
      if (!step.to.empty()) line.word("--reverse");
      return line.text();
    }
    default:
      return "";
  }
}

/// The special commands of all steps, one after the other: the first writes the output, the others change it. "" when a
/// step has none.
std::string special_commands(const Diagnosis& diagnosis, const FixCommand& command) {
  const std::string& at = diagnosis.at.empty() ? diagnosis.plan.at : diagnosis.at;
  if (!can_be_named(at)) return "";
  Files files{command.program, address(diagnosis.path, at), output_name(diagnosis)};
  const std::string output = address(files.output, at);
  std::string all;
  for (const FixStep& step : diagnosis.plan.steps) {
    if (step.kind == Step::convert && !all.empty()) continue;  // the name of the output says it
    std::string one = step_command(diagnosis, files, step);
    if (one.empty()) return "";
    all += (all.empty() ? "" : " && ") + one;
    files.input = output;
    files.output.clear();
  }
  return all;
}

/// Another dict than the one that `ckpt fix` takes.
bool is_alternative(const Diagnosis& diagnosis) {
  return diagnosis.tag != Diagnosis().tag;
}

/// A native file is for libckpt; PyTorch reads what `ckpt convert` makes of it, or of what the fix wrote.
struct ForTorch {
  std::string from;
  std::string to;
};
std::optional<ForTorch> for_torch(const Diagnosis& diagnosis) {
  const bool loads = diagnosis.plan.empty() ? diagnosis.names_match() : diagnosis.fixable();
  const bool ours = detail::reader_in_python(diagnosis.format) == PythonReader::libckpt;
  if (!ours || !loads || diagnosis.path == "-" || !diagnosis.at.empty()) return std::nullopt;
  std::string from = diagnosis.plan.empty() ? diagnosis.path : output_name(diagnosis);
  std::filesystem::path to = from;
  std::error_code ignored;
  to.replace_extension(".pth");
  bool taken = to == from || std::filesystem::exists(std::filesystem::symlink_status(to, ignored));
  if (taken) to.replace_extension(".converted.pth");
  return ForTorch{std::move(from), to.string()};
}

std::string fetch_command(const Diagnosis& diagnosis) {
  const Cause& cause = diagnosis.causes.front();
  std::error_code ignored;
  if (diagnosis.path == "-" || std::filesystem::is_directory(diagnosis.path, ignored)) return "";
  if (cause.kind == CauseKind::lfs_pointer) return cause.advice;
  if (!cause.command.empty()) return cause.command;
  ShellCommand curl("curl");
  curl.word("-L");
  if (cause.kind == CauseKind::truncated) curl.option("-C", "-");
  bool again = cause.kind == CauseKind::web_page || cause.kind == CauseKind::corrupt;
  if (!again && cause.kind != CauseKind::truncated) return "";
  return curl.file_option("-o", diagnosis.path).word("URL").text();
}

/// The names in one dict comprehension, as far as that goes.
class PythonNames {
 public:
  bool add(const FixStep& step) {
    if (step.kind == Step::rename) return ties_.empty() && add_rule(step.rule);
    if (step.kind == Step::tie) return add_ties(step);
    if (step.kind != Step::drop || step.keys.size() > kMaxGlobs) return false;
    std::vector<std::string> names;
    for (const std::string& key : step.keys) names.push_back(python_text(key));
    condition_ += (condition_.empty() ? "" : " and ") + key_ + " not in (" + core::join(names, ", ") + ",)";
    return true;
  }
  bool changed() const { return key_ != "k" || !condition_.empty() || !ties_.empty(); }
  bool regex() const { return regex_; }
  std::string comprehension() const {
    if (key_ == "k" && condition_.empty()) return "{**sd" + ties_ + "}";
    std::string all = "{" + key_ + ": v for k, v in sd.items()" + (condition_.empty() ? "" : " if " + condition_) + "}";
    return ties_.empty() ? all : "{**" + all + ties_ + "}";
  }

 private:
  /// The names are those of `sd`, so none of them may have been another before.
  bool add_ties(const FixStep& step) {
    if (key_ != "k" || step.pairs.size() > kMaxTies) return false;
    for (const auto& [name, existing] : step.pairs) {
      ties_ += ", " + python_text(name) + ": sd[" + python_text(existing) + "]";
    }
    return true;
  }
  bool add_rule(const KeyRule& rule) {
    std::string from = python_pattern(rule.from);
    switch (rule.kind) {
      case KeyRule::Kind::prefix:
        if (rule.to.empty()) {
          key_ += ".removeprefix(" + python_text(rule.from) + ")";
        } else if (rule.from.empty()) {
          key_ = "(" + python_text(rule.to) + " + " + key_ + ")";
        } else {
          substitute("^" + from, python_replacement(rule.to));
        }
        return true;
      case KeyRule::Kind::path:
        if (rule.to.empty()) {
          substitute("^(?:" + from + R"(\.)+|\.)" + from + R"((?=\.|\Z))", "");
        } else {
          substitute(R"((^|\.))" + from + R"((?=\.|\Z))", R"(\g<1>)" + python_replacement(rule.to));
        }
        return true;
      case KeyRule::Kind::wrappers:
        substitute(R"((^|(?<=\.))(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module|_forward_module)\.)",
                   "");
        return true;
      default:
        return false;
    }
  }
  void substitute(const std::string& pattern, const std::string& replacement) {
    regex_ = true;
    std::string with = replacement.empty() ? "''" : python_raw(replacement);
    key_ = "re.sub(" + python_raw(pattern) + ", " + with + ", " + key_ + ")";
  }

  std::string key_ = "k";
  std::string condition_;
  std::string ties_;
  bool regex_ = false;
};

/// "['model']"; nothing when a step is a key that has no short form in Python.
std::optional<std::string> python_subscripts(const std::vector<Value>& place) {
  std::string out;
  for (const Value& step : place) {
    if (step.is(Value::Kind::text)) {
      out += "[" + python_text(step.as_text()) + "]";
    } else if (step.is(Value::Kind::integer)) {
      out += "[" + std::to_string(step.as_integer()) + "]";
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

std::string command_line(const Diagnosis& diagnosis, const FixCommand& command) {
  if (!diagnosis.readable) return diagnosis.causes.empty() ? "" : fetch_command(diagnosis);
  if (diagnosis.plan.empty() || !diagnosis.fixable()) return "";
  const bool alternative = is_alternative(diagnosis);
  bool special = diagnosis.plan.steps.size() == 1 || command.lacks_message || alternative;
  if (std::string line = special ? special_commands(diagnosis, command) : ""; !line.empty()) {
    if (line.size() <= kLongestSpecial) return line;
  }
  if (command.lacks_message || alternative) return "";  // `ckpt fix` takes the first dict
  ShellCommand line(command.program);
  line.word("fix").file(address(diagnosis.path, diagnosis.at));
  for (const auto& [name, value] : command.options) line.option(name, value);
  if (diagnosis.guesses()) line.word("--guess");
  return line.file_option("-o", output_name(diagnosis)).text();
}

std::string convert_line(const Diagnosis& diagnosis, const std::string& program) {
  std::optional<ForTorch> files = for_torch(diagnosis);
  if (!files) return "";
  ShellCommand line(program);
  line.word("convert").file(files->from).file(files->to);
  return line.is_exact() ? line.text() : "";
}

std::string python_line(const Diagnosis& diagnosis) {
  // A message alone does not say where in the file the keys lie.
  if (diagnosis.path == "-" || is_remote_name(diagnosis.path) || diagnosis.from_message) return "";
  detail::PythonLine line(diagnosis);
  if (detail::reader_in_python(diagnosis.format) == PythonReader::libckpt) {
    std::optional<ForTorch> files = for_torch(diagnosis);
    return files ? line.after(files->to, "") : "";
  }
  if (!diagnosis.fixable() || diagnosis.plan.empty()) return "";
  std::optional<std::string> place = python_subscripts(diagnosis.place);
  PythonNames names;
  bool takes = false;
  bool said = place.has_value();
  for (const FixStep& step : diagnosis.plan.steps) {
    if (step.kind == Step::take) {
      takes = true;
    } else if (step.kind == Step::remap) {
      line.to_cpu();
    } else if (step.kind != Step::convert) {
      said &= names.add(step);
    }
  }
  if (said) {
    if (auto direct = line.direct({*place, names.changed() ? names.comprehension() : "", names.regex()}))
      return *direct;
  }
  std::string below = diagnosis.plan.at.empty() || takes ? "" : place.value_or("");
  return line.after(output_name(diagnosis), below);
}

}  // namespace ckpt
