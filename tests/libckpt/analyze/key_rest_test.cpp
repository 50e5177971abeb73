#include "libckpt/analyze/key_rest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/checkpoint.h"

namespace {

using ckpt::KeyList;
using ckpt::Value;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

KeyList parse(const std::string& text) {
  return ckpt::parse_key_list(text, "keys.txt");
}

Value dict_of(std::vector<std::pair<std::string, Value>> items) {
  ckpt::Dict dict;
  for (auto& [key, value] : items) dict.items.emplace_back(Value::text(key), std::move(value));
  return Value::dict(std::move(dict));
}

TEST(VersionDifferences, CountWhereTheDictHasVersions) {
  ckpt::Dict state;
  const KeyList want = parse("a\n~ bn 2\n~ norm 2\n");
  EXPECT_THAT(ckpt::version_differences(state, want), IsEmpty());
  const auto version = [](std::int64_t number) { return dict_of({{"version", Value::integer(number)}}); };
  state.attributes = dict_of(
      {{"_metadata", dict_of({{"", version(1)}, {"bn", version(1)}, {"norm", version(2)}, {"old", version(3)}})}});
  EXPECT_THAT(ckpt::version_differences(state, want),
              ElementsAre("bn: version 1 where 2 is wanted", "old: version 3 where 1 is wanted"));
}

TEST(CompareTies, ATensorMayHaveOneOfItsNamesOrSeveralCopies) {
  const KeyList want = parse("a\nb\nc\n= a b\n");
  const ckpt::TieDifferences one = ckpt::compare_ties(parse("a\nc\n"), want);
  EXPECT_THAT(one.unwritten, ElementsAre(Pair("b", "a")));
  EXPECT_THAT(one.separate, IsEmpty());
  EXPECT_THAT(ckpt::compare_ties(parse("a\nb\nc\n"), want).separate, ElementsAre(ElementsAre("a", "b")));
  EXPECT_THAT(ckpt::compare_ties(want, want).separate, IsEmpty());
}

}  // namespace
