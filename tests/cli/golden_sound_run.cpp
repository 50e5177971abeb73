// Golden folders of Whisper through `ckpt zoo run FOLDER sound.wav`, and what transformers' `generate` writes about the
// same waves (tests/zoo/make_sounds.py). Every folder of sounds is a case. Exits with 77 without the data.

#include <algorithm>

#include "tests/cli/program.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"

namespace {

std::string shown(const std::vector<std::int64_t>& ids) {
  std::string out;
  for (std::int64_t id : ids) out += " " + std::to_string(id);
  return out;
}

/// "" or what is wrong with what `ckpt zoo run` writes. The data have no special tokens, of which the first ends a
/// text.
std::string difference(const std::filesystem::path& root, std::vector<std::string> words, test::Json wanted,
                       std::int64_t special) {
  words.emplace_back("--json");
  const test::Outcome done = test::run_ckpt(root, words);
  if (done.code != 0) return done.err;
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.parse(done.out);
  const std::vector<test::Json> inputs = test::items(test::member(json, "inputs"));
  const std::vector<test::Json> pieces = test::items(test::member(inputs.at(0), "pieces"));
  std::vector<std::int64_t> tokens = test::integers(test::member(pieces.at(0), "tokens"));
  std::erase_if(tokens, [special](std::int64_t id) { return id >= special; });
  const std::vector<std::int64_t> expected = test::integers(test::member(wanted, "tokens"));
  if (pieces.size() != 1 || tokens != expected) return "writes" + shown(tokens) + ", not" + shown(expected);
  const std::string text = test::text(test::member(inputs.at(0), "text"));
  return text == test::text(test::member(wanted, "text")) ? "" : "the text is '" + text + "'";
}

}  // namespace

int main() {
  const auto root = test::golden_file("sounds");
  if (!root) return 77;
  test::GoldenRun run("sound_run");
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(*root)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  for (const std::filesystem::path& folder : folders) {
    const std::string name = folder.filename().string();
    const test::GoldenJson expected(folder / "expected.json"), config(folder / "generation_config.json");
    const std::int64_t end = test::integer(test::member(config.root(), "eos_token_id"));
    int number = 0;
    for (test::Json row : test::items(expected.root())) {
      const std::string id = name + "/" + std::to_string(number++);
      test::guarded(run, id, [&] {
        std::vector<std::string> words = {"zoo", "run", name + "/", test::text(test::member(row, "sound"))};
        for (const std::string& word : test::texts(test::member(row, "arguments"))) words.push_back(word);
        const std::string why = difference(*root, words, row, end);
        run.check(id, why.empty(), why);
      });
    }
  }
  return run.finish();
}
