// Golden data set: what transformers' `generate` goes on with from small random models, and what its processors make of
// scores (make_generate.py). Every folder of text/generate is a case. Exits with 77 without the data.

#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"
#include "zoo/from_folder.h"
#include "zoo/generate.h"

namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int64_t>;

std::int64_t whole(test::Json config, std::string_view key) {
  return test::integer(test::member(config, key));
}

double real_or(test::Json options, std::string_view key, double otherwise) {
  return test::has(options, key) ? test::number(test::member(options, key)) : otherwise;
}

zoo::GenerateOptions options_in(test::Json json) {
  zoo::GenerateOptions options;
  options.max_new_tokens = static_cast<std::int64_t>(real_or(json, "max_new_tokens", 20));
  options.sample = test::has(json, "do_sample");
  options.temperature = real_or(json, "temperature", 1);
  options.top_k = static_cast<std::int64_t>(real_or(json, "top_k", 0));
  options.top_p = real_or(json, "top_p", 1);
  options.repetition_penalty = real_or(json, "repetition_penalty", 1);
  options.beams = static_cast<std::int64_t>(real_or(json, "num_beams", 1));
  options.length_penalty = real_or(json, "length_penalty", 1);
  if (test::has(json, "eos")) options.ends = test::integers(test::member(json, "eos"));
  return options;
}

std::string shown(const Ids& ids) {
  std::string out;
  for (std::int64_t id : ids) out += " " + std::to_string(id);
  return out;
}

void check_model(test::GoldenRun& run, const fs::path& folder) {
  const std::string name = folder.filename().string();
  const test::GoldenJson expected(folder / "expected.json");
  const std::shared_ptr<core::Module> model = zoo::from_folder(folder).model;
  int number = 0;
  for (test::Json row : test::items(test::member(expected.root(), "runs"))) {
    const std::string id = name + "/" + std::to_string(number++);
    test::guarded(run, id, [&] {
      core::manual_seed(static_cast<std::uint64_t>(whole(row, "seed")));
      Ids told;
      zoo::GenerateOptions options = options_in(test::member(row, "options"));
      if (test::has(row, "begin")) options.begin = test::integers(test::member(row, "begin"));
      const Ids added = zoo::generate(*model, test::integers(test::member(row, "prompt")), options, {},
                                      [&](std::int64_t token) { told.push_back(token); });
      const Ids wanted = test::integers(test::member(row, "added"));
      run.check(id, added == wanted && told == wanted, "goes on with" + shown(added) + ", not" + shown(wanted));
    });
  }
}

/// As transformers writes them: null for what is left out.
std::vector<float> scores_in(test::Json rows) {
  std::vector<float> out;
  for (test::Json row : test::items(rows)) {
    for (test::Json value : test::items(row)) {
      out.push_back(test::is_null(value) ? -std::numeric_limits<float>::infinity()
                                         : static_cast<float>(test::number(value)));
    }
  }
  return out;
}

void check_processors(test::GoldenRun& run, const fs::path& file) {
  const test::GoldenJson json(file);
  int number = 0;
  for (test::Json row : test::items(json.root())) {
    const std::string id = "processors/" + std::to_string(number++);
    test::guarded(run, id, [&] {
      std::vector<Ids> seen;
      for (test::Json one : test::items(test::member(row, "seen"))) seen.push_back(test::integers(one));
      zoo::GenerateOptions options = options_in(test::member(row, "options"));
      options.sample = true;
      const core::Tensor scores =
          core::from_values(scores_in(test::member(row, "scores"))).view({static_cast<std::int64_t>(seen.size()), -1});
      const auto got = zoo::processed_scores(scores, seen, options).flatten().to_vector<float>();
      const std::vector<float> wanted = scores_in(test::member(row, "processed"));
      const bool same = std::equal(got.begin(), got.end(), wanted.begin(), wanted.end(),
                                   [](float a, float b) { return a == b || std::abs(a - b) <= 1e-6F * std::abs(b); });
      run.check(id, same, "are other scores");
    });
  }
}

}  // namespace

int main() {
  const auto root = test::golden_file("text/generate");
  if (!root) return 77;
  test::GoldenRun run("generate");
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(*root)) {
    if (fs::exists(entry.path() / "expected.json")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    test::guarded(run, folder.filename().string(), [&] { check_model(run, folder); });
  }
  if (fs::exists(*root / "processors.json")) check_processors(run, *root / "processors.json");
  return run.finish();
}
