// Runs the diagnosis corpus: every broken file is written, diagnosed, fixed, read again and compared with what the
// model wants, bit for bit. Prints how many causes and fixes were right.

#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "libckpt/analyze/why/fix.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tests/libckpt/analyze/why/corpus.h"
#include "tests/support/temp_dir.h"

namespace test {
namespace {

namespace fs = std::filesystem;
using ckpt::Diagnosis;

const std::vector<ckpt::KeyList>& known_models() {
  static const std::vector<ckpt::KeyList> models = {
      wanted(small_resnet({2, 2}, 10), "small_resnet_2_2"),
      wanted(small_resnet({3, 4}, 10), "small_resnet_3_4"),
      wanted(small_gpt(2), "small_gpt_2"),
      wanted(small_gpt(4), "small_gpt_4"),
      wanted(small_bert(), "small_bert"),
  };
  return models;
}

fs::path write_broken(const TempDir& dir, const Case& c, const Broken& broken) {
  fs::path path = dir.path() / (c.id + broken.extension);
  if (broken.root.is_null()) {
    write_file(path, broken.raw);
    return path;
  }
  ckpt::Checkpoint checkpoint;
  checkpoint.root = broken.root;
  ckpt::save(checkpoint, path, {.durable = false});
  if (broken.cut == 0) return path;
  fs::resize_file(path, fs::file_size(path) * broken.cut / 100);
  return path;
}

ckpt::WhyOptions options_of(const Broken& broken) {
  ckpt::WhyOptions options;
  options.error = broken.error;
  options.at = broken.at;
  options.cuda_devices = broken.devices;
  options.known = []() -> const std::vector<ckpt::KeyList>& { return known_models(); };
  if (!broken.has_target) return options;
  ckpt::KeyList list = wanted(broken.truth);
  list.ties = broken.ties;
  for (ckpt::WantedKey& key : list.keys) {
    if (broken.names_only) key = {key.key};
  }
  options.wanted.push_back(std::move(list));
  return options;
}

std::string kinds_of(const Diagnosis& d) {
  std::vector<std::string> names;
  for (const ckpt::Cause& cause : d.causes) names.emplace_back(ckpt::name(cause.kind));
  return names.empty() ? "no cause" : core::join(names, ", ");
}

bool names(const Diagnosis& d, ckpt::CauseKind kind) {
  return std::any_of(d.causes.begin(), d.causes.end(), [&](const ckpt::Cause& cause) { return cause.kind == kind; });
}

bool says(const Diagnosis& d, const std::string& text) {
  std::string all = ckpt::command_line(d) + "\n";
  for (const ckpt::Cause& cause : d.causes)
    all += cause.text + "\n" + cause.advice + "\n" + core::join(cause.evidence, "\n") + "\n";
  return all.find(text) != std::string::npos;
}

/// "" when the diagnosis is the expected one.
std::string check_causes(const Case& c, const Diagnosis& d) {
  if (d.causes.empty() || d.causes.front().kind != c.first) {
    return "expected " + std::string(ckpt::name(c.first)) + " first, found " + kinds_of(d);
  }
  for (ckpt::CauseKind kind : c.also) {
    if (!names(d, kind)) return "expected " + std::string(ckpt::name(kind)) + " too, found " + kinds_of(d);
  }
  return says(d, c.says)
             ? ""
             : "nowhere says " + core::quote(c.says) + ": " + ckpt::command_line(d) + " / " + d.causes.front().text;
}

/// Names of tensors whose content comes from elsewhere: a tied one has that of its partner.
std::unordered_map<std::string, std::string> tied_names(const ckpt::FixPlan& plan) {
  std::unordered_map<std::string, std::string> names;
  for (const ckpt::FixStep& step : plan.steps) {
    for (const auto& [name, partner] : step.pairs) names[name] = partner;
  }
  return names;
}

std::string check_values(const Broken& broken, const Diagnosis& d, const ckpt::Dict& fixed) {
  std::unordered_map<std::string, ckpt::EntryPtr> entries;
  for (const auto& [key, value] : fixed.items) {
    if (value.is(ckpt::Value::Kind::tensor)) entries.emplace(ckpt::step_text(key), value.entry_ptr());
  }
  auto ties = tied_names(d.plan);
  for (const Part& part : broken.truth) {
    auto found = entries.find(part.key);
    if (found == entries.end()) continue;  // the comparison of keys has its own word on that
    Part source = part;
    if (auto tie = ties.find(part.key); tie != ties.end()) source.key = tie->second;
    bool fused = part.key == "attn.in_proj_weight";
    if (!fused && ckpt::read_all(*found->second->bytes) != content(source))
      return core::quote(part.key) + " has other values than before";
  }
  return "";
}

std::string check_keys(const Case& c, const Broken& broken, const Diagnosis& d, const ckpt::Checkpoint& fixed) {
  if (!fixed.root.is(ckpt::Value::Kind::dict)) return "the fixed file has no dict at its top";
  ckpt::KeyDifferences difference =
      ckpt::compare_keys(ckpt::key_list_of(fixed.root.as_dict(), "fixed"), wanted(broken.truth));
  if (!difference.unexpected.empty()) return "still has " + difference.unexpected.front();
  if (!difference.shapes.empty()) return difference.shapes.front();
  if (difference.missing != d.missing && !(difference.missing.empty() && d.missing.empty()))
    return "lacks other keys than foretold, such as " +
           (difference.missing.empty() ? d.missing : difference.missing).front();
  if (c.outcome == Outcome::loads && !difference.missing.empty()) return "lacks " + difference.missing.front();
  return check_values(broken, d, fixed.root.as_dict());
}

ckpt::Checkpoint open_any(const fs::path& path) {
  return ckpt::open(path, {.foreign_objects = true});
}

std::string check_fix(const Case& c, const Broken& broken, const Diagnosis& d, const fs::path& path) {
  if (c.outcome == Outcome::advice) return d.fixable() ? "an edit is said to cure it" : "";
  fs::path out = path;
  bool converts = std::any_of(d.plan.steps.begin(), d.plan.steps.end(),
                              [](const ckpt::FixStep& step) { return step.kind == ckpt::FixStep::Kind::convert; });
  out.replace_filename(path.stem().string() + ".fixed" + (converts ? ".pth" : path.extension().string()));
  ckpt::save(ckpt::apply_fix(open_any(path), d.plan), out, {.durable = false});
  ckpt::Checkpoint fixed = ckpt::open(out);
  ckpt::WhyOptions again = options_of(broken);
  again.error.clear();
  if (c.outcome == Outcome::plain) {
    Diagnosis after = ckpt::why(out, again);
    return after.loads() ? "" : "after the fix there still is " + kinds_of(after);
  }
  std::string wrong = check_keys(c, broken, d, fixed);
  if (!wrong.empty() || c.outcome == Outcome::rest) return wrong;
  again.wanted = {wanted(broken.truth)};
  Diagnosis after = ckpt::why(out, again);
  return after.loads() && d.fixable() ? "" : "after the fix there still is " + kinds_of(after);
}

struct Tally {
  int causes = 0;
  int fixes = 0;
  int all = 0;
};

void run_case(const TempDir& dir, const Case& c, Tally& tally) {
  ++tally.all;
  std::string wrong_cause;
  std::string wrong_fix = "not tried";
  try {
    Broken broken = c.make();
    fs::path path = write_broken(dir, c, broken);
    Diagnosis d = ckpt::why(path, options_of(broken));
    wrong_cause = check_causes(c, d);
    wrong_fix = check_fix(c, broken, d, path);
  } catch (const core::Error& error) {
    (wrong_fix == "not tried" ? wrong_fix : wrong_cause) = std::string("throws: ") + error.what();
  }
  tally.causes += wrong_cause.empty() ? 1 : 0;
  tally.fixes += wrong_fix.empty() ? 1 : 0;
  if (!wrong_cause.empty()) std::printf("%s (%s): cause: %s\n", c.id.c_str(), c.thread.c_str(), wrong_cause.c_str());
  if (!wrong_fix.empty()) std::printf("%s (%s): fix: %s\n", c.id.c_str(), c.thread.c_str(), wrong_fix.c_str());
}

}  // namespace

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto group : {wrapper_cases, name_cases, shape_cases, tree_cases, file_cases, error_cases}) {
    for (Case& c : group()) all.push_back(std::move(c));
  }
  return all;
}

}  // namespace test

int main(int argc, char** argv) {
  test::TempDir dir;
  test::Tally tally;
  std::string only = argc > 1 ? argv[1] : "";
  for (const test::Case& c : test::all_cases()) {
    if (only.empty() || c.id == only) test::run_case(dir, c, tally);
  }
  std::printf("golden diagnosis_corpus: %d of %d causes, %d of %d fixes\n", tally.causes, tally.all, tally.fixes,
              tally.all);
  return tally.causes == tally.all && tally.fixes == tally.all && tally.all > 0 ? 0 : 1;
}
