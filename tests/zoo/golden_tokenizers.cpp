// Golden data set: tokenizers of every kind beside what the `tokenizers` and `sentencepiece` packages make of texts in
// many scripts (make_tokenizers.py). Every folder of text/tokenizers and text/sweeps is a case, its expected.json says
// what is asked. Exits with 77 without the data.

#include <algorithm>
#include <iostream>
#include <map>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"
#include "zoo/text/tokenizer.h"
#include "zoo/text/unicode.h"

namespace {

namespace fs = std::filesystem;
using zoo::text::Tokenizer;
using Ids = std::vector<std::int64_t>;

/// "" or where the two part.
std::string difference(const Ids& got, const Ids& wanted) {
  const auto [at, other] = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
  if (at == got.end() && other == wanted.end()) return "";
  const auto number = [](const Ids& ids, auto position) {
    return position == ids.end() ? "the end" : std::to_string(*position);
  };
  return "token " + std::to_string(at - got.begin()) + " is " + number(got, at) + ", not " + number(wanted, other);
}

std::string difference(const std::string& got, const std::string& wanted) {
  return got == wanted ? "" : core::quote(got) + " is not " + core::quote(wanted);
}

/// The text given out token by token: whole characters, and all of it.
std::string stream_difference(const Tokenizer& tokenizer, const Ids& ids) {
  zoo::text::TextStream stream(tokenizer, {});
  for (std::int64_t id : ids) {
    const std::string more = stream.push(id);
    if (!core::is_utf8(more)) return "the stream splits a character";
  }
  stream.finish();
  return difference(stream.text(), tokenizer.decode(ids));
}

struct Tally {
  int same = 0;
  int all = 0;
};
using Tallies = std::map<std::string, Tally>;

void check_row(test::GoldenRun& run, const Tokenizer& tokenizer, const std::string& id, test::Json row,
               Tallies& tallies) {
  test::guarded(run, id, [&] {
    const Ids ids = test::integers(test::member(row, "ids"));
    std::vector<std::string> found;
    if (test::has(row, "text")) {
      const std::string text = test::text(test::member(row, "text"));
      found.push_back(difference(tokenizer.encode(text), ids));
      found.push_back(difference(tokenizer.encode(text, false), test::integers(test::member(row, "plain"))));
    }
    found.push_back(difference(tokenizer.decode(ids), test::text(test::member(row, "decoded"))));
    found.push_back(difference(tokenizer.decode(ids, false), test::text(test::member(row, "decoded_all"))));
    found.push_back(stream_difference(tokenizer, ids));
    const auto bad = std::find_if(found.begin(), found.end(), [](const std::string& why) { return !why.empty(); });
    Tally& tally = tallies[test::text(test::member(row, "script"))];
    ++tally.all;
    tally.same += bad == found.end() ? 1 : 0;
    run.check(id, bad == found.end(),
              bad == found.end() ? "" : "(" + std::to_string(bad - found.begin()) + ") " + *bad);
  });
}

void check_tokenizer(test::GoldenRun& run, const fs::path& folder, Tallies& tallies) {
  const std::string name = folder.filename().string();
  test::guarded(run, name, [&] {
    const Tokenizer tokenizer = Tokenizer::open(folder);
    const test::GoldenJson expected(folder / "expected.json");
    int number = 0;
    for (test::Json row : test::items(expected.root()))
      check_row(run, tokenizer, name + "/" + std::to_string(number++), row, tallies);
  });
}

void check_sweep(test::GoldenRun& run, const fs::path& folder) {
  const std::string name = "sweep_" + folder.filename().string();
  test::guarded(run, name, [&] {
    const Tokenizer tokenizer = Tokenizer::open(folder);
    const test::GoldenJson expected(folder / "expected.json");
    for (test::Json row : test::items(expected.root())) {
      std::uint64_t hash = 14695981039346656037ULL;
      const auto mix = [&](std::int64_t id) { hash = (hash ^ static_cast<std::uint64_t>(id)) * 1099511628211ULL; };
      const Ids runs = test::integers(test::member(row, "runs"));
      for (std::size_t i = 0; i + 1 < runs.size(); i += 2) {
        for (std::int64_t point = runs[i]; point < runs[i] + runs[i + 1]; ++point) {
          std::string text = "a";
          zoo::text::append(text, static_cast<char32_t>(point));
          for (std::int64_t id : tokenizer.encode(text + "b")) mix(id);
          mix(256);
        }
      }
      std::string hex;
      for (int shift = 60; shift >= 0; shift -= 4) hex += "0123456789abcdef"[(hash >> shift) & 15];
      run.check(name + "/" + std::to_string(runs.at(0)), hex == test::text(test::member(row, "hash")),
                "is another text");
    }
  });
}

std::vector<fs::path> folders_in(const fs::path& root) {
  std::vector<fs::path> out;
  if (fs::exists(root)) {
    for (const auto& entry : fs::directory_iterator(root)) {
      if (fs::exists(entry.path() / "expected.json")) out.push_back(entry.path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

int main() {
  const auto root = test::golden_file("text");
  if (!root) return 77;
  test::GoldenRun run("tokenizers");
  Tallies tallies;
  const std::vector<fs::path> tokenizers = folders_in(*root / "tokenizers");
  for (const fs::path& folder : tokenizers) check_tokenizer(run, folder, tallies);
  for (const fs::path& folder : folders_in(*root / "sweeps")) check_sweep(run, folder);
  std::cout << tokenizers.size() << " tokenizers; texts whose numbers and decoded forms are the same:\n";
  for (const auto& [script, tally] : tallies)
    std::cout << "  " << script << " " << tally.same << " of " << tally.all << "\n";
  return run.finish();
}
