// Golden folders through `ckpt zoo run FOLDER --prompt`: model, tokenizer and settings as a hub has them, and what
// transformers goes on with (tests/zoo/make_generate.py). Every folder of text/folders is a case. Exits with 77 without
// the data.

#include <algorithm>

#include "libcore/base/text.h"
#include "tests/cli/program.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"

namespace {

/// Whether the tool prints it as it is: control characters and those that join or turn others are shown by their
/// numbers.
bool is_plain(std::string text) {
  std::erase_if(text, [](char c) { return std::string_view("\n\t\\'").find(c) != std::string_view::npos; });
  return core::printable(text) == text;
}

/// "" or what is wrong with what `ckpt zoo run` makes of the words, as it streams and as JSON.
std::string difference(const std::filesystem::path& root, std::vector<std::string> words, const std::string& wanted) {
  words.emplace_back("-q");
  const test::Outcome streamed = test::run_ckpt(root, words);
  if (streamed.code != 0) return streamed.err;
  if (is_plain(wanted) && streamed.out != wanted) {
    return core::quote(streamed.out, 400) + " is not " + core::quote(wanted, 400);
  }
  words.back() = "--json";
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.parse(test::run_ckpt(root, words).out);
  const std::string said = test::text(test::member(json, "text")) + "\n";
  return said == wanted ? "" : core::quote(said, 400) + " (JSON) is not " + core::quote(wanted, 400);
}

}  // namespace

int main() {
  const auto root = test::golden_file("text/folders");
  if (!root) return 77;
  test::GoldenRun run("folder_run");
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(*root)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (const std::filesystem::path& folder : folders) {
    const std::string name = folder.filename().string();
    const test::GoldenJson expected(folder / "expected.json");
    int number = 0;
    for (test::Json row : test::items(expected.root())) {
      const std::string id = name + "/" + std::to_string(number++);
      test::guarded(run, id, [&] {
        std::vector<std::string> words = {"zoo", "run", name + "/"};
        for (const std::string& word : test::texts(test::member(row, "arguments"))) words.push_back(word);
        const std::string why = difference(*root, words, test::text(test::member(row, "printed")));
        run.check(id, why.empty(), why);
      });
    }
  }
  return run.finish();
}
