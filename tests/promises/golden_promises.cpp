// Holds `ckpt why` to what it says, without PyTorch: each command below "fix" is pasted into a shell, and what it
// makes, or what is said to load as it is, is loaded strictly by libcore into the model that PyTorch listed. The judge
// itself is held to PyTorch: of every broken file it must say what PyTorch's load_state_dict said, to the letter. Where
// PyTorch is installed, check_promises.py does the same with the real one, and the lines of Python too.

#include <algorithm>
#include <array>
#include <cctype>
#include <iostream>
#include <optional>

#include "libcore/base/error.h"
#include "tests/promises/promise_judge.h"
#include "tests/promises/user_folder.h"

namespace {

namespace fs = std::filesystem;
using test::Json;

/// What came of the promises of one case.
struct Promises {
  int kept = 0;
  std::vector<std::string> broken;
  std::vector<std::string> python;  ///< lines that only an interpreter with PyTorch can run
  bool silent = false;              ///< the answer lacks the word that it is about
  void judge(const std::string& promise, const std::string& why_not) {
    if (why_not.empty()) {
      ++kept;
    } else {
      broken.push_back(promise + ": " + why_not);
    }
  }
};

struct Case {
  fs::path corpus;
  Json record, situation, model;
  bool has(const char* expected) const { return test::text(record["expect"]) == expected; }
  /// Its files are of a format that only this library reads.
  bool ours() const {
    const std::string format = test::text(situation["format"]);
    return format == "native" || format == "h5" || format == "gguf";
  }
  /// The user named it, or took it from there before there was a message, which does not say so.
  bool named_a_place() const {
    const std::string mode = test::has(record, "mode") ? test::text(record["mode"]) : "";
    const bool taken =
        test::has(situation, "attempt") && test::text(situation["attempt"]).find("['state_dict']") != std::string::npos;
    return mode == "for_place" || (taken && (mode == "error_pipe" || mode == "error_file" || mode == "traceback_pipe"));
  }
  test::Judged judged() const {
    test::Judged judged{.model = model, .ours = ours()};
    if (named_a_place()) judged.at = "state_dict";
    if (test::has(situation, "free")) judged.free = test::texts(situation["free"]);
    return judged;
  }
};

/// The indented lines below a heading, which may say more behind a comma: "fix, as far as names tell".
std::vector<std::string> lines_below(const std::string& out, const std::string& heading) {
  std::vector<std::string> lines;
  bool inside = false;
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = std::min(out.find('\n', at), out.size());
    const std::string line = out.substr(at, end - at);
    at = end + 1;
    if (inside && line.starts_with("  ")) {
      lines.push_back(line.substr(2));
    } else {
      inside = line.substr(0, line.find(',')) == heading;
    }
  }
  return lines;
}

bool fetches(const std::string& line) {
  constexpr std::array<std::string_view, 5> kFetches = {"curl ", "git ", "wget ", "hf ", "pip "};
  return std::any_of(kFetches.begin(), kFetches.end(), [&](std::string_view start) { return line.starts_with(start); });
}

/// "" when the folder's owner got what the line promises.
std::string why_not_fixed(test::UserFolder& user, const Case& one, const std::string& line, bool must_load) {
  user.look();
  const test::Outcome done = user.run_line(line);
  if (done.code != 0) return "exit " + std::to_string(done.code) + ": " + done.err.substr(0, 300);
  const std::optional<fs::path> made = user.made();
  if (!made) return "the command wrote nothing";
  if (!must_load && user.file().filename() == "FILE") return "";  // nobody knows what lies in the file
  if (!must_load) return test::why_no_dict_of_tensors(*made, one.ours());
  const std::string why = test::why_not_loaded(*made, one.judged());
  if (!why.empty()) return why;
  return one.has("no") ? "it loads, but it is made of a file of another model, or of a damaged one" : "";
}

/// The user's target is known, or the file alone tells all.
bool must_load(const Case& one, Json facts) {
  return !test::text(facts["target"]).empty() || one.has("fixable") || one.has("loads");
}

std::string why_not_as_it_is(const test::UserFolder& user, const Case& one, Json facts) {
  const bool target = !test::text(facts["target"]).empty() || test::text(one.record["mode"]) != "alone";
  const std::string why = test::why_no_dict_of_tensors(user.file(), false);
  return why.empty() && target ? test::why_not_loaded(user.file(), one.judged()) : why;
}

/// The words are in small letters; one is enough.
bool is_silent(Json record, std::string said) {
  std::transform(said.begin(), said.end(), said.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::vector<std::string> words =
      test::has(record, "tells") ? test::texts(record["tells"]) : std::vector<std::string>();
  return !words.empty() && std::none_of(words.begin(), words.end(),
                                        [&](const std::string& word) { return said.find(word) != std::string::npos; });
}

Promises promises_of(const Case& one) {
  Promises promises;
  test::UserFolder user(one.corpus, one.record, one.situation);
  const test::Outcome told = user.ask(""), asked = user.ask("--json");
  promises.silent = is_silent(one.record, told.out + told.err);
  promises.python = lines_below(told.out, "python");
  simdjson::dom::parser parser;
  Json facts;
  if (parser.parse(asked.out).get(facts) != simdjson::SUCCESS) return promises;  // an error message instead
  const std::vector<std::string> fixes = lines_below(told.out, "fix");
  const bool loads = test::boolean(facts["loads"]);
  if (loads) promises.judge("it loads as it is", why_not_as_it_is(user, one, facts));
  const bool mark = told.out.find("after: ") != std::string::npos && test::boolean(facts["fixable"]);
  if (mark && !loads && fixes.empty() && promises.python.empty()) {
    promises.judge("a check mark", "no command that would do it");
  }
  for (const std::string& line : fixes) {
    if (fetches(line)) continue;
    const std::string why = why_not_fixed(user, one, line, must_load(one, facts));
    // Shapes are not promised where it was said that they are not known.
    const bool said = told.out.find(", as far as names tell") != std::string::npos;
    if (!said || why.find("size mismatch") == std::string::npos) promises.judge(line, why);
  }
  return promises;
}

/// What PyTorch and its interpreter made of the case when the corpus was packed.
class Recorded {
 public:
  Recorded(Json verdicts, const std::string& id) {
    if (test::has(verdicts, id)) verdict_ = verdicts[id];
  }
  bool told() const { return verdict_ && !test::boolean((*verdict_)["silent"]); }
  /// Something was offered, and it loaded.
  bool kept() const {
    return any([](Json promise) {
      const std::string kind = test::text(promise.at(0));
      return (kind == "fix" || kind == "loads as it is") && test::boolean(promise.at(2));
    });
  }
  /// PyTorch could not run this line.
  bool refutes(const std::string& line) const {
    return any([&](Json promise) { return test::text(promise.at(1)) == line && !test::boolean(promise.at(2)); });
  }
  bool knows(const std::string& line) const {
    return any([&](Json promise) { return test::text(promise.at(1)) == line; });
  }

 private:
  template <class Test>
  bool any(const Test& is) const {
    if (!verdict_) return false;
    const std::vector<Json> promises = test::items((*verdict_)["promises"]);
    return std::any_of(promises.begin(), promises.end(), is);
  }
  std::optional<Json> verdict_;
};

/// "" when the answer is as good as it was when it was recorded.
std::string why_worse(const Promises& promises, const Recorded& recorded) {
  if (!promises.broken.empty()) return promises.broken.front();
  for (const std::string& line : promises.python) {
    if (recorded.refutes(line)) return line + ": PyTorch could not run this line";
  }
  if (promises.kept == 0 && recorded.kept()) return "nothing is offered, where something was that loaded in PyTorch";
  return promises.silent && recorded.told() ? "it does not speak any more of what it is about" : "";
}

/// libcore says of the file, as it is, what PyTorch said.
void check_judge(const fs::path& corpus, std::string_view id, const Case& one, test::GoldenRun& run) {
  constexpr std::string_view kStart = "RuntimeError: ";
  const std::string said = test::text(one.situation["before"]["says"]);
  const bool loaded = test::boolean(one.situation["before"]["loads"]);
  const std::string attempt = test::text(one.situation["attempt"]);
  const bool whole = attempt.ends_with("))") || attempt.ends_with(".pth'))");
  const bool about_keys = said.starts_with("RuntimeError: Error(s) in loading state_dict for");
  if (!whole || test::boolean(one.model["full_size"]) || !test::items(one.model["own_rules"]).empty()) return;
  if (!loaded && !about_keys) return;
  const std::string ours =
      test::message_of_load(corpus / "files" / std::string(id) / test::text(one.situation["file"]), one.model);
  if (ours.empty()) return;  // nested: PyTorch's loader is given more than tensors
  if (ours.find("is damaged: its CRC-32") != std::string::npos) return;  // which PyTorch does not look at
  const std::string theirs = loaded ? "loads" : said.substr(kStart.size());
  run.check("judge/" + std::string(id), ours == theirs,
            "says '" + ours.substr(0, 300) + "' where PyTorch says '" + theirs.substr(0, 300) + "'");
}

struct Sums {
  int kept = 0, broken = 0, lines = 0, known = 0;
  void add(const Promises& promises, const Recorded& recorded) {
    kept += promises.kept;
    broken += static_cast<int>(promises.broken.size());
    for (const std::string& line : promises.python) {
      ++lines;
      known += recorded.knows(line) ? 1 : 0;
    }
  }
};

struct Options {
  std::size_t every = 1;
  bool tell = false;  ///< print every broken promise
};

void run_corpus(const fs::path& folder, const Options& options, test::GoldenRun& run) {
  test::GoldenJson cases(folder / "cases.json"), recorded(folder / "verdicts.json");
  const Json root = cases.root();
  const auto case_of = [&](Json record, Json situation) {
    return Case{folder, record, situation, root["models"][test::text(situation["model"])]};
  };
  for (const auto field : root["situations"].get_object()) {
    const Case one = case_of(field.value, field.value);
    test::guarded(run, "judge/" + std::string(field.key), [&] { check_judge(folder, field.key, one, run); });
  }
  Sums sums;
  std::size_t count = 0;
  for (Json record : test::items(root["cases"])) {
    if (count++ % options.every != 0) continue;
    const std::string id = test::text(record["id"]);
    test::guarded(run, id, [&] {
      const Promises promises = promises_of(case_of(record, root["situations"][test::text(record["situation"])]));
      const Recorded before(recorded.root(), id);
      sums.add(promises, before);
      for (const std::string& promise : promises.broken) {
        if (options.tell) std::cout << "BROKEN " << id << ": " << promise << '\n';
      }
      const std::string why = why_worse(promises, before);
      run.check(id, why.empty(), why);
    });
  }
  std::cout << "promises: " << sums.kept + sums.broken << " made, " << sums.kept << " kept, " << sums.broken
            << " broken; lines of Python: " << sums.lines << ", " << sums.known << " as PyTorch ran them\n";
}

}  // namespace

/// usage: golden_promises [--every N] [--tell]: only each Nth case; print all that is broken.
int main(int argc, char** argv) {
  const auto folder = test::golden_file("promises");
  if (!folder) return 77;
  Options options;
  for (int i = 1; i < argc; ++i) {
    options.tell |= std::string(argv[i]) == "--tell";
    if (std::string(argv[i]) == "--every" && i + 1 < argc) options.every = std::stoul(argv[i + 1]);
  }
  test::GoldenRun run("promises");
  test::guarded(run, "(whole corpus)", [&] { run_corpus(*folder, options, run); });
  return run.finish();
}
