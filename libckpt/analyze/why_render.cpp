// A plan as one command and as one line of Python.

#include <algorithm>

#include "libckpt/analyze/why_fix.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using Step = FixStep::Kind;

/// "best.pth" -> "best.fixed.pth"; of an index the name of the single file.
std::string output_name(const std::string& subject) {
  std::string path = subject.substr(0, subject.find("::"));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  constexpr std::string_view kIndex = ".index.json";
  if (path.size() > kIndex.size() && path.ends_with(kIndex)) path.resize(path.size() - kIndex.size());
  std::size_t slash = path.rfind('/');
  std::size_t dot = path.rfind('.');
  bool extension = dot != std::string::npos && dot > 0 && (slash == std::string::npos || dot > slash + 1);
  return extension ? path.substr(0, dot) + ".fixed" + path.substr(dot) : path + ".fixed.pth";
}

/// A key as a glob that matches it alone.
std::string as_glob(const std::string& key) {
  std::string out;
  for (char c : key) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

/// The special command of a plan of one step, "" when it has none.
std::string special_command(const Diagnosis& diagnosis, const FixCommand& command) {
  if (diagnosis.plan.steps.size() != 1) return "";
  const FixStep& step = diagnosis.plan.steps.front();
  std::string file = shell_word(
      diagnosis.subject +
      (diagnosis.plan.at.empty() || diagnosis.subject.find("::") != std::string::npos ? "" : "::" + diagnosis.plan.at));
  std::string tail = " " + file + " -o " + shell_word(output_name(diagnosis.subject));
  bool prefix = step.kind == Step::rename && step.rule.kind == KeyRule::Kind::prefix;
  if (prefix && step.rule.to.empty())
    return command.program + " strip-prefix --prefix " + shell_word(step.rule.from) + tail;
  if (prefix && step.rule.from.empty())
    return command.program + " add-prefix --prefix " + shell_word(step.rule.to) + tail;
  if (step.kind == Step::rename && step.rule.kind == KeyRule::Kind::wrappers)
    return command.program + " strip-prefix --wrappers" + tail;
  if (step.kind == Step::rules)
    return command.program + " rename --rules " + shell_word(step.at) + (step.to.empty() ? "" : " --reverse") + tail;
  if (step.kind == Step::remap) return command.program + " remap --to " + shell_word(step.to) + tail;
  if (step.kind == Step::cast) {
    std::string line = command.program + " cast";
    for (const std::string& dtype : step.keys) line += " --from " + shell_word(dtype);
    return line + " --to " + shell_word(step.to) + tail;
  }
  if (step.kind == Step::take && diagnosis.plan.at.empty())
    return command.program + " convert " + shell_word(diagnosis.subject + "::" + step.at) + " " +
           shell_word(output_name(diagnosis.subject));
  constexpr std::size_t kMaxGlobs = 4;
  if (step.kind != Step::drop || step.keys.size() > kMaxGlobs) return "";
  std::string line = command.program + " select";
  for (const std::string& key : step.keys) line += " --exclude " + shell_word(as_glob(key));
  return line + tail;
}

std::string fetch_command(const Diagnosis& diagnosis) {
  const Cause& cause = diagnosis.causes.front();
  if (cause.kind == CauseKind::lfs_pointer) return cause.advice;
  std::string out = shell_word(diagnosis.subject);
  if (cause.kind == CauseKind::truncated) return "curl -L -C - -o " + out + " URL";
  if (cause.kind == CauseKind::web_page || cause.kind == CauseKind::corrupt) return "curl -L -o " + out + " URL";
  return "";
}

std::string python_text(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

/// Text with what regular expressions of Python give a meaning escaped.
std::string python_pattern(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (std::string_view(".^$*+?{}[]()|\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

/// The names in one dict comprehension, as far as that goes.
class PythonNames {
 public:
  bool add(const FixStep& step) {
    if (step.kind == Step::rename) return add_rule(step.rule);
    if (step.kind != Step::drop || step.keys.size() > 4) return false;
    std::vector<std::string> names;
    for (const std::string& key : step.keys) names.push_back(python_text(key));
    condition_ += (condition_.empty() ? "" : " and ") + key_ + " not in (" + core::join(names, ", ") + ",)";
    return true;
  }
  bool changed() const { return key_ != "k" || !condition_.empty(); }
  bool regex() const { return regex_; }
  std::string comprehension() const {
    return "{" + key_ + ": v for k, v in sd.items()" + (condition_.empty() ? "" : " if " + condition_) + "}";
  }

 private:
  bool add_rule(const KeyRule& rule) {
    switch (rule.kind) {
      case KeyRule::Kind::prefix:
        if (rule.to.empty()) {
          key_ += ".removeprefix(" + python_text(rule.from) + ")";
        } else if (rule.from.empty()) {
          key_ = "(" + python_text(rule.to) + " + " + key_ + ")";
        } else {
          substitute("r'^" + python_pattern(rule.from) + "', " + python_text(rule.to));
        }
        return true;
      case KeyRule::Kind::path:
        if (rule.to.empty()) {
          substitute("r'(^|\\.)" + python_pattern(rule.from) + "\\.', r'\\1'");
        } else {
          substitute("r'(^|\\.)" + python_pattern(rule.from) + "(?=\\.|$)', r'\\g<1>" + rule.to + "'");
        }
        return true;
      case KeyRule::Kind::wrappers:
        substitute(
            "r'(^|(?<=\\.))(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module|_forward_module)\\.', ''");
        return true;
      default:
        return false;
    }
  }
  void substitute(const std::string& what) {
    regex_ = true;
    key_ = "re.sub(" + what + ", " + key_ + ")";
  }

  std::string key_ = "k";
  std::string condition_;
  bool regex_ = false;
};

std::string python_subscripts(const std::string& at) {
  std::string out;
  for (std::string_view step : core::split(at, '.')) out += "[" + python_text(std::string(step)) + "]";
  return out;
}

bool reads_as_safetensors(const std::string& path) {
  return path.find(".safetensors") != std::string::npos;
}

std::string load_call(const std::string& path, bool to_cpu) {
  if (reads_as_safetensors(path)) return "safetensors.torch.load_file(" + python_text(path) + ")";
  return "torch.load(" + python_text(path) + (to_cpu ? ", map_location='cpu'" : "") + ")";
}

}  // namespace

std::string shell_word(const std::string& text) {
  auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./:=,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string command_line(const Diagnosis& diagnosis, const FixCommand& command) {
  if (!diagnosis.readable) return diagnosis.causes.empty() ? "" : fetch_command(diagnosis);
  if (diagnosis.plan.empty()) return "";
  if (std::string special = special_command(diagnosis, command); !special.empty()) return special;
  std::string line = command.program + " fix " + shell_word(diagnosis.subject);
  for (const std::string& argument : command.arguments) line += " " + shell_word(argument);
  if (diagnosis.guesses()) line += " --guess";
  line += " -o " + shell_word(output_name(diagnosis.subject));
  return line + (command.from_stdin ? " < error.txt" : "");
}

std::string python_line(const Diagnosis& diagnosis) {
  if (!diagnosis.readable || diagnosis.plan.empty()) return "";
  std::string strict = diagnosis.missing.empty() ? "" : ", strict=False";
  std::string path = diagnosis.subject.substr(0, diagnosis.subject.find("::"));
  std::string subscripts = diagnosis.plan.at.empty() ? "" : python_subscripts(diagnosis.plan.at);
  PythonNames names;
  bool to_cpu = false;
  // A file that weights_only refuses is not to be loaded in any other way.
  bool said = std::none_of(diagnosis.causes.begin(), diagnosis.causes.end(),
                           [](const Cause& cause) { return cause.kind == CauseKind::foreign_globals; });
  for (const FixStep& step : diagnosis.plan.steps) {
    if (step.kind == Step::take) {
      subscripts = python_subscripts(step.at);
    } else if (step.kind == Step::remap) {
      to_cpu = true;
    } else {
      said &= names.add(step);
    }
  }
  if (!said) {
    return "model.load_state_dict(" + load_call(output_name(diagnosis.subject), false) + strict +
           ")  # after the command above";
  }
  std::string load = load_call(path, to_cpu) + subscripts;
  std::string imports = std::string(reads_as_safetensors(path) ? "import safetensors.torch; " : "") +
                        (names.regex() ? "import re; " : "");
  if (!names.changed()) return imports + "model.load_state_dict(" + load + strict + ")";
  return imports + "sd = " + load + "; model.load_state_dict(" + names.comprehension() + strict + ")";
}

}  // namespace ckpt
