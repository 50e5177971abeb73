// A file of 70,000 records gave 2,632 lines of warnings: of each kind five are said, and the rest is counted.

#include "tools/ckpt/output/few_of_a_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libckpt/io/byte_sink.h"
#include "libckpt/io/zip.h"
#include "libcore/base/text.h"
#include "tests/cli/files.h"

using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

std::vector<std::string> texts_of(const std::vector<cli::Said>& all) {
  std::vector<std::string> texts;
  for (const cli::Said& said : all) texts.push_back(said.text);
  return texts;
}

ckpt::SourcePtr source_of(const std::string& text) {
  core::Bytes bytes = core::as_bytes(text);
  return ckpt::memory_source(core::ByteVector(bytes.begin(), bytes.end()));
}

/// A checkpoint with as many records beside its own, whose names hold what a terminal obeys.
void write_with_strangers(const TempDir& dir, const std::string& name, int strangers) {
  write_checkpoint(dir.path() / name, dict({{"module.w", tensor({1, 2})}}));
  auto old = ckpt::ZipArchive::open(ckpt::open_file(dir.path() / name));
  std::vector<ckpt::ZipItem> items;
  for (const ckpt::ZipMember& member : old.members()) {
    items.push_back({member.name, source_of(std::string(core::as_text(ckpt::read_all(*old.payload(member)))))});
  }
  std::string top = items.front().name.substr(0, items.front().name.find('/') + 1);
  for (int i = 0; i < strangers; ++i) items.push_back({top + "odd\x1b[31m'" + std::to_string(i), source_of("x")});
  ckpt::MemorySink sink;
  ckpt::ZipWriter(std::move(items)).write(sink);
  core::ByteVector made = sink.take();
  write_file(dir.path() / name, core::as_text(made));
}

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(FewOfAKind, SentencesThatDifferInNamesAndNumbersAreOfAKind) {
  std::vector<std::string> sentences;
  for (int i = 0; i < 2632; ++i) {
    std::string name = "it\\'s " + std::string(static_cast<std::size_t>(i % 7), 'x') + std::to_string(i);
    sentences.push_back("the module's record '" + name + "' is not read, " + std::to_string(1000 * i) + " B");
  }
  sentences.insert(sentences.begin() + 3, "something else");
  std::vector<cli::Said> said = cli::few_of_a_kind(sentences);
  ASSERT_EQ(said.size(), 7U);
  EXPECT_EQ(said[0].text, sentences[0]);
  EXPECT_EQ(said[3].text, "something else");
  EXPECT_EQ(said[6].text, "… and 2,627 more of this kind");
  EXPECT_EQ(said[6].more, 2627U);
  EXPECT_EQ(cli::counted_only(said), 2627U);
}

TEST(FewOfAKind, FiveAreSaidAndNothingIsCounted) {
  std::vector<std::string> sentences = {"a 1", "a 2", "a 3", "a 4", "a 5", "b"};
  EXPECT_EQ(texts_of(cli::few_of_a_kind(sentences)), sentences);
  EXPECT_EQ(cli::counted_only(cli::few_of_a_kind(sentences)), 0U);
}

TEST(FewOfAKind, ThousandsOfKindsAreFewLines) {
  std::vector<std::string> sentences;
  for (int i = 0; i < 10'000; ++i) {
    std::string word;
    for (int k = i; k > 0; k /= 26) word += static_cast<char>('a' + k % 26);
    sentences.push_back("the " + word + " is odd");
  }
  std::vector<cli::Said> said = cli::few_of_a_kind(sentences);
  EXPECT_LT(said.size(), 60U);
  EXPECT_GT(cli::counted_only(said), 9'900U);
}

TEST(FewOfAKind, ALongSentenceIsCutBetweenCharacters) {
  std::string sentence = "a";
  for (int i = 0; i < 100'000; ++i) sentence += "ü";
  std::vector<cli::Said> said = cli::few_of_a_kind({sentence});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_LT(said[0].text.size(), 5000U);
  EXPECT_TRUE(core::is_utf8(said[0].text));
}

TEST(FewOfAKind, EveryCommandSaysFiveWarningsOfThreeThousandRecords) {
  TempDir dir;
  write_with_strangers(dir, "odd.pth", 3000);
  for (std::vector<std::string> command :
       std::vector<std::vector<std::string>>{{"ls", "odd.pth"},
                                             {"info", "odd.pth"},
                                             {"tree", "odd.pth"},
                                             {"stat", "odd.pth"},
                                             {"hash", "odd.pth"},
                                             {"cat", "odd.pth", "module.w"},
                                             {"diff", "odd.pth", "odd.pth"},
                                             {"meta", "odd.pth"},
                                             {"convert", "odd.pth", "out.safetensors"},
                                             {"strip-prefix", "odd.pth", "-o", "out.pth"},
                                             {"publish", "odd.pth", "-o", "out2.pth"},
                                             {"cast", "odd.pth", "--to", "f64", "-o", "out3.pth"}}) {
    Outcome done = run_ckpt(dir.path(), command);
    EXPECT_EQ(done.code, 0) << command[0] << done.err;
    EXPECT_LE(lines_in(done.err), 14U) << command[0];
    EXPECT_EQ(count_of(done.err, "odd\\x1b[31m\\'"), count_of(done.err, "odd") - count_of(done.err, "odd.pth"))
        << done.err;
    EXPECT_THAT(done.err, HasSubstr("… and 2,995 more of this kind\n")) << command[0];
    EXPECT_THAT(done.err, Not(HasSubstr("\x1b"))) << command[0];
  }
  Outcome verified = run_ckpt(dir.path(), {"verify", "odd.pth"});
  EXPECT_LE(lines_in(verified.out), 8U) << verified.out;
  EXPECT_THAT(verified.out, HasSubstr("note: … and 2,995 more of this kind\n"));
}

TEST(FewOfAKind, JsonHasTheCount) {
  TempDir dir;
  write_with_strangers(dir, "odd.pth", 3000);
  Outcome done = run_ckpt(dir.path(), {"ls", "--json", "odd.pth"});
  EXPECT_EQ(done.code, 0) << done.err;
  ckpt::JsonDocument document = ckpt::JsonDocument::parse(std::string_view(done.out));
  ckpt::JsonView file = first_file(document);
  EXPECT_EQ(file.at("warnings").items().size(), 5U);
  EXPECT_EQ(file.at("more_warnings").as_unsigned(), 2995U);
  EXPECT_EQ(lines_in(done.err), 6U) << done.err;
  EXPECT_THAT(done.err, HasSubstr(R"("more":2995)"));
}

}  // namespace
