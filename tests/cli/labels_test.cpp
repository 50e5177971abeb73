#include "tools/run/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "libcore/base/error.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::Value;
using testing::ElementsAre;

class Labels : public ::testing::Test {
 protected:
  std::vector<std::string> read(const std::string& text) const {
    const std::filesystem::path path = dir_.path() / "labels";
    std::ofstream(path, std::ios::binary) << text;
    return cli::read_labels(path);
  }
  std::string error(const std::string& text) const {
    try {
      read(text);
    } catch (const core::Error& e) {
      return e.message();
    }
    return "no error";
  }
  test::TempDir dir_;
};

TEST_F(Labels, StandOneALine) {
  EXPECT_THAT(read("cat\r\nsiamese cat\n\ndog\n\n"), ElementsAre("cat", "siamese cat", "", "dog"));
}

TEST_F(Labels, MayBeJson) {
  EXPECT_THAT(read(R"(["cat", "dog"])"), ElementsAre("cat", "dog"));
  EXPECT_THAT(read(R"({"1": ["n02", "dog"], "0": ["n01", "cat"]})"), ElementsAre("cat", "dog"));
}

TEST_F(Labels, AreRefusedWithGaps) {
  EXPECT_EQ(error(""), "has no labels");
  EXPECT_EQ(error("[1, 2]"), "a label is neither a name nor a list that ends in one");
  EXPECT_NE(error(R"({"0": "cat", "2": "dog"})"), "no error");
}

Value dict_of(std::vector<std::pair<Value, Value>> items) {
  ckpt::Dict dict;
  dict.items = std::move(items);
  return Value::dict(std::move(dict));
}

TEST(Vocabulary, IsFoundInTheFormsOfTrainingScripts) {
  const Value stoi = dict_of({{Value::text("b"), Value::integer(1)}, {Value::text("a"), Value::integer(0)}});
  const Value itos = dict_of({{Value::integer(0), Value::text("a")}, {Value::integer(1), Value::text("b")}});
  const Value list = Value::list({Value::text("a"), Value::text("b")});
  for (const Value& root :
       {dict_of({{Value::text("stoi"), stoi}}), dict_of({{Value::text("itos"), itos}}),
        dict_of({{Value::text("vocab"), list}}), dict_of({{Value::text("chars"), Value::text("ab")}}),
        dict_of({{Value::text("meta"), dict_of({{Value::text("stoi"), stoi}})}})}) {
    const cli::Vocabulary vocabulary = cli::vocabulary_in(root);
    ASSERT_EQ(vocabulary.size(), 2U);
    EXPECT_EQ(vocabulary.token(1), "b");
    EXPECT_THAT(vocabulary.encode("abba"), ElementsAre(0, 1, 1, 0));
  }
}

TEST(Vocabulary, IsNoneWhereNumbersHaveGaps) {
  const Value gap = dict_of({{Value::text("a"), Value::integer(0)}, {Value::text("b"), Value::integer(2)}});
  EXPECT_TRUE(cli::vocabulary_in(dict_of({{Value::text("stoi"), gap}})).empty());
  EXPECT_TRUE(cli::vocabulary_in(Value::integer(3)).empty());
}

TEST(Vocabulary, IsTheSortedCharactersOfAText) {
  test::TempDir dir;
  std::ofstream(dir.path() / "a.txt", std::ios::binary) << "b\u00e9a\nab";
  const cli::Vocabulary vocabulary = cli::characters_of(dir.path() / "a.txt");
  EXPECT_EQ(vocabulary.size(), 4U);
  EXPECT_THAT(vocabulary.encode("\u00e9\n"), ElementsAre(3, 0));
  std::ofstream(dir.path() / "b.txt", std::ios::binary) << "\xff";
  EXPECT_THROW(cli::characters_of(dir.path() / "b.txt"), core::Error);
}

}  // namespace
