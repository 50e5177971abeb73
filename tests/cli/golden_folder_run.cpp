// Golden folders through `ckpt zoo run FOLDER --prompt`: model, tokenizer and settings as a hub has them, and what
// transformers goes on with (tests/zoo/make_generate.py). Every folder of text/folders is a case. Exits with 77 without
// the data.

#include <algorithm>

#include "libcore/base/text.h"
#include "tests/cli/program.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"

namespace {

/// As the tool prints it: control characters but line ends and tabs can be seen.
std::string visible(const std::string& text) {
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += control ? std::string{'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]} : std::string(1, c);
  }
  return out;
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
        std::vector<std::string> words = {"zoo", "run", name + "/", "-q"};
        for (const std::string& word : test::texts(test::member(row, "arguments"))) words.push_back(word);
        const test::Outcome done = test::run_ckpt(*root, words);
        const std::string wanted = visible(test::text(test::member(row, "printed")));
        run.check(id, done.code == 0 && done.out == wanted,
                  core::quote(done.out, 400) + done.err + " is not " + core::quote(wanted, 400));
      });
    }
  }
  return run.finish() == 0 && run.passed() > 0 ? 0 : 1;
}
