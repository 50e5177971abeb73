#include "zoo/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace {

using testing::HasSubstr;
using zoo::text::TextStream;
using zoo::text::Tokenizer;
using Ids = std::vector<std::int64_t>;
namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What is said of a tokenizer.json, "" when it is taken.
std::string said_of(const std::string& json) {
  try {
    Tokenizer::from_json(json);
    return "";
  } catch (const core::Error& error) {
    return error.what();
  }
}

std::string with(const std::string& member) {
  return R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},)" + member + "}";
}

TEST(Tokenizer, MergesAndDecodes) {
  const Tokenizer tokenizer = Tokenizer::from_json(with(R"("added_tokens":[{"id":3,"content":"<s>","special":true}])"));
  EXPECT_EQ(tokenizer.encode("abba<s>ab"), (Ids{2, 1, 0, 3, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{2, 3, 1, 99}), "ab b");
  EXPECT_EQ(tokenizer.decode(Ids{2, 3}, false), "ab <s>");
  EXPECT_EQ(tokenizer.rows(), 4);
  EXPECT_EQ(tokenizer.id_of("<s>"), 3);
  EXPECT_EQ(tokenizer.token(99), std::nullopt);
}

TEST(Tokenizer, NamesWhatIsNotHere) {
  EXPECT_THAT(said_of(with(R"("normalizer":{"type":"Zap"})")), HasSubstr("the normalizer 'Zap' is not here"));
  EXPECT_THAT(said_of(with(R"("pre_tokenizer":{"type":"UnicodeScripts"})")),
              HasSubstr("the pre-tokenizer 'UnicodeScripts' is not here"));
  EXPECT_THAT(said_of(with(R"("decoder":{"type":"CTC"})")), HasSubstr("the decoder 'CTC' is not here"));
  EXPECT_THAT(said_of(with(R"("post_processor":{"type":"X"})")), HasSubstr("the post-processor 'X' is not here"));
  EXPECT_THAT(said_of(with(R"("normalizer":{"type":"NFC","odd":1})")),
              HasSubstr("the normalizer 'NFC' has a field 'odd', which is not here"));
  EXPECT_THAT(said_of(with(R"("speed":1)")), HasSubstr("the tokenizer has a field 'speed', which is not here"));
  EXPECT_THAT(said_of(R"({"model":{"type":"Magic"}})"), HasSubstr("the model is of the kind 'Magic'"));
  EXPECT_THAT(said_of(R"({"model":{"type":"BPE","vocab":{},"merges":[],"dropout":0.1}})"), HasSubstr("dropout"));
  EXPECT_THAT(said_of(with(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"a\\b"},"behavior":"Isolated"})")),
              HasSubstr("has a \\b, which is not here"));
  EXPECT_THAT(said_of(with(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"})")),
              HasSubstr("cannot be read"));
}

TEST(Tokenizer, RefusesFilesThatContradictThemselves) {
  const auto model = [](const std::string& members) { return said_of("{\"model\":{" + members + "}}"); };
  EXPECT_THAT(model(R"("type":"BPE","vocab":{"a":0,"b":0},"merges":[])"),
              HasSubstr("gives number 0 to 'a' and to 'b'"));
  EXPECT_THAT(model(R"("type":"BPE","vocab":{"a":99999999999},"merges":[])"), HasSubstr("no number of a token"));
  EXPECT_THAT(model(R"("type":"BPE","vocab":{"a":-1},"merges":[])"), HasSubstr("no number of a token"));
  EXPECT_THAT(model(R"("type":"BPE","vocab":{"a":0},"merges":["a a"])"),
              HasSubstr("'aa', which the vocabulary has not"));
  EXPECT_THAT(model(R"("type":"BPE","vocab":{"a":0},"merges":["aa"])"), HasSubstr("not two tokens"));
  EXPECT_THAT(model(R"("type":"Unigram","vocab":[["a",-1],["b"]],"unk_id":0)"), HasSubstr("token 1 of the vocabulary"));
  EXPECT_THAT(model(R"("type":"Unigram","vocab":[["a",-1]],"unk_id":7)"), HasSubstr("past its 1 tokens"));
  EXPECT_THAT(said_of(with(R"("added_tokens":[{"id":1,"content":"<s>"}])")),
              HasSubstr("which the vocabulary gives to 'b'"));
  EXPECT_THAT(
      said_of(with(R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}}]})")),
      HasSubstr("has no special token '<s>'"));
  EXPECT_THAT(said_of(with(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA////"})")),
              HasSubstr("table of replacements"));
  EXPECT_THAT(said_of(with(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAI6"})")),
              HasSubstr("the table of replacements begins with a value"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"type":"Sequence","normalizers":[)";
  EXPECT_THAT(said_of(with("\"normalizer\":" + deep)), HasSubstr("64"));
}

TEST(Tokenizer, TextsThatGrowWithoutEndAreRefused) {
  std::string steps;
  for (int i = 0; i < 40; ++i) steps += R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"},)";
  steps.pop_back();
  const Tokenizer tokenizer =
      Tokenizer::from_json(with(R"("normalizer":{"type":"Sequence","normalizers":[)" + steps + "]}"));
  EXPECT_THROW(tokenizer.encode("aaaa"), core::Error);
}

TEST(Tokenizer, BytesThatAreNoTextBecomeReplacements) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      R"({"model":{"type":"WordLevel","vocab":{"�":0,"a":1,"?":2},"unk_token":"?"},"pre_tokenizer":{"type":"FixedLength","length":1}})");
  EXPECT_EQ(tokenizer.encode("a\xff\xe2\x82"
                             "a\xc3"),
            (Ids{1, 0, 0, 1, 0}));
  EXPECT_EQ(tokenizer.encode("\xed\xa0\x80"), (Ids{0, 0, 0}));  // half of a pair
}

TEST(Tokenizer, FolderWithoutOneNamesTheFiles) {
  const test::TempDir folder;
  try {
    Tokenizer::open(folder.path());
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("neither tokenizer.json, nor tokenizer.model"));
    EXPECT_THAT(error.what(), HasSubstr("vocab.json with merges.txt, nor vocab.txt"));
  }
  write(folder.path() / "vocab.json", R"({"a":0})");
  write(folder.path() / "merges.txt", "#version: 0.2\n");
  EXPECT_EQ(Tokenizer::open(folder.path()).encode("aa"), (Ids{0, 0}));
  write(folder.path() / "tokenizer_config.json", R"({"tokenizer_class":"CLIPTokenizer"})");
  try {
    Tokenizer::open(folder.path());
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("vocab.json with merges.txt of a 'CLIP' tokenizer alone is not here"));
  }
}

TEST(Tokenizer, StreamsWholeCharacters) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      R"({"model":{"type":"BPE","vocab":{"H":0,"Ã":1,"©":2,"Ģ":3},"merges":[]},"decoder":{"type":"ByteLevel"}})");
  TextStream stream(tokenizer, {0});
  EXPECT_EQ(stream.push(0), "H");
  EXPECT_EQ(stream.push(1), "");
  EXPECT_EQ(stream.push(2), "é");
  EXPECT_EQ(stream.push(1), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.text(), "Hé\xEF\xBF\xBD");
}

/// Every damaged copy is taken or refused, and nothing else happens.
TEST(Tokenizer, DamagedFilesNeverCrash) {
  const auto golden = test::golden_file("text/tokenizers");
  if (!golden) GTEST_SKIP() << "no golden data";
  const std::pair<const char*, const char*> files[] = {
      {"bert_uncased", "tokenizer.json"}, {"t5", "tokenizer.json"},     {"llama3", "tokenizer.json"},
      {"clip", "tokenizer.json"},         {"t5_model", "spiece.model"}, {"llama_model", "tokenizer.model"},
      {"gpt2_files", "vocab.json"},       {"bert_files", "vocab.txt"}};
  std::uint64_t state = 12345;
  const auto random = [&state](std::size_t end) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(state >> 33) % end;
  };
  for (const auto& [name, file] : files) {
    const test::TempDir folder;
    fs::copy(*golden / name, folder.path(), fs::copy_options::recursive);
    const std::string whole = read(folder.path() / file);
    int taken = 0;
    constexpr int kTries = 60;
    for (int i = 0; i < kTries; ++i) {
      std::string damaged = whole;
      if (i % 4 == 0) damaged.resize(random(whole.size()));
      for (int flips = i % 7; flips > 0 && !damaged.empty(); --flips)
        damaged[random(damaged.size())] ^= static_cast<char>(1 << random(8));
      write(folder.path() / file, damaged);
      try {
        const Tokenizer tokenizer = Tokenizer::open(folder.path());
        tokenizer.decode(tokenizer.encode("Some Text, ﬁne: 日本 1234 <s>"));
        ++taken;
      } catch (const core::Error&) {  // refused
      }
    }
    EXPECT_LT(taken, kTries) << name;
  }
}

}  // namespace
