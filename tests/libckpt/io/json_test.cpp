#include "libckpt/io/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "libcore/base/error.h"

namespace {

using ckpt::JsonDocument;
using Kind = ckpt::JsonView::Kind;

core::Error error_of(std::string_view text, const ckpt::JsonOptions& options = {}) {
  try {
    JsonDocument::parse(text, options);
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorCode::internal, "accepted"};
}

TEST(Json, KeepsOrderAndExactIntegers) {
  JsonDocument json =
      JsonDocument::parse(R"({"b":9223372036854775807,"a":18446744073709551615,"c":[1,1.0,null,true,"x"]})");
  auto members = json.root().members();
  EXPECT_EQ(members[0].first, "b");
  EXPECT_EQ(members[0].second.as_integer(), INT64_MAX);
  EXPECT_EQ(members[1].second.kind(), Kind::unsigned_integer);
  EXPECT_EQ(members[1].second.as_unsigned(), UINT64_MAX);
  auto items = members[2].second.items();
  EXPECT_EQ(items[0].kind(), Kind::integer);
  EXPECT_EQ(items[1].kind(), Kind::real);
  EXPECT_EQ(items[2].kind(), Kind::null);
  EXPECT_TRUE(items[3].as_boolean());
  EXPECT_EQ(items[4].as_text(), "x");
}

TEST(Json, DuplicateKeysAreNamedWithBothOffsets) {
  core::Error error = error_of(R"({"x":{"p":1}, "y":[{"k":1,"l":"}{","\u006b":2}]})");
  EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
  EXPECT_THAT(error.message(), testing::HasSubstr("'k' twice"));
  EXPECT_THAT(error.message(), testing::HasSubstr("bytes 20 and 35"));
  EXPECT_THAT(error_of(R"({"a":1,"a":1})", {.offset = 8}).message(), testing::HasSubstr("bytes 9 and 15"));
}

TEST(Json, WhatIsNoJsonIsCorrupt) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":01}", "{'a':1}", "\"\\ud800\"", "[1] x", "\xef\xbb\xbf[1]",
                           "\"\xff\"", "[-0]", "[NaN]", "[1e999]", "[01234567890123456789012]", "tru"}) {
    EXPECT_EQ(error_of(text).code(), core::ErrorCode::corrupt) << text;
  }
}

TEST(Json, IntegersPast64BitsAreReal) {
  const std::string text = R"({"n\"1":1000000000000000019884624838656,"b":[-9223372036854775809,9223372036854775807,)"
                           R"(18446744073709551615,18446744073709551616],"99999999999999999999999":{"c":1}})";
  JsonDocument json = JsonDocument::parse(text);
  EXPECT_EQ(json.text(), text);
  EXPECT_EQ(json.member_spans().at(1).begin, text.find('['));
  EXPECT_EQ(json.root().at("n\"1").kind(), Kind::real);
  EXPECT_EQ(json.root().at("n\"1").as_real(), 1e30);
  EXPECT_FALSE(json.root().at("n\"1").is_count());
  const auto items = json.root().at("b").items();
  EXPECT_EQ(items[0].as_real(), -9223372036854775808.0);
  EXPECT_EQ(items[1].as_integer(), INT64_MAX);
  EXPECT_EQ(items[2].as_unsigned(), UINT64_MAX);
  EXPECT_EQ(items[3].as_real(), 18446744073709551616.0);
  EXPECT_TRUE(json.root().has("99999999999999999999999"));
  EXPECT_EQ(error_of("[" + std::string(400, '9') + "]").code(), core::ErrorCode::corrupt);
  EXPECT_THAT(error_of(R"({"a":1000000000000000019884624838656,"a":1})").message(),
              testing::HasSubstr("bytes 1 and 37"));
}

TEST(Json, NegativeZeroIsOnlyRefusedAsANumber) {
  EXPECT_NO_THROW(JsonDocument::parse(R"({"layer-0":[-0.5,1e-05,-0.0,"-0"]})"));
}

TEST(Json, DepthIsLimited) {
  EXPECT_NO_THROW(JsonDocument::parse("[[[1]]]", {.max_depth = 4}));
  EXPECT_EQ(error_of("[[[[1]]]]", {.max_depth = 4}).code(), core::ErrorCode::refused);
  EXPECT_EQ(error_of(std::string(100'000, '[') + std::string(100'000, ']')).code(), core::ErrorCode::refused);
}

TEST(Json, SpansOfTopMembers) {
  std::string text = R"( { "a" : {"x":"}"} , "b\"" : [1, 2] ,"c":3})";
  JsonDocument json = JsonDocument::parse(text);
  auto spans = json.member_spans();
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(text.substr(spans[0].begin, spans[0].end - spans[0].begin), R"({"x":"}"})");
  EXPECT_EQ(text.substr(spans[1].begin, spans[1].end - spans[1].begin), "[1, 2]");
  EXPECT_EQ(text.substr(spans[2].begin, spans[2].end - spans[2].begin), "3");
  EXPECT_EQ(text[spans[1].key], '"');
  EXPECT_EQ(JsonDocument::parse("{ }").member_spans().size(), 0U);
}

TEST(Json, MissingKeyIsNamed) {
  JsonDocument json = JsonDocument::parse(R"({"a":1})");
  EXPECT_FALSE(json.root().has("shape"));
  EXPECT_THROW(json.root().at("shape"), core::Error);
}

TEST(JsonWriter, CompactAndIndented) {
  auto write = [](ckpt::JsonWriter out) {
    out.begin_object().key("a").begin_array().value(1).value("x").end_array();
    out.key("e").begin_object().end_object().key("n").null().end_object();
    return out.take();
  };
  EXPECT_EQ(write(ckpt::JsonWriter()), R"({"a":[1,"x"],"e":{},"n":null})");
  EXPECT_EQ(write(ckpt::JsonWriter(2)), "{\n  \"a\": [\n    1,\n    \"x\"\n  ],\n  \"e\": {},\n  \"n\": null\n}");
}

TEST(JsonWriter, EscapesWhatJsonDemandsAndNothingElse) {
  EXPECT_EQ(ckpt::json_quote("a\"\\\n\x01/ü漢🧠"), "\"a\\\"\\\\\\n\\u0001/ü漢🧠\"");
  EXPECT_EQ(ckpt::json_quote("\xff|\xc3"), "\"\xef\xbf\xbd|\xef\xbf\xbd\"");
  EXPECT_EQ(ckpt::json_quote(std::string("\0", 1)), "\"\\u0000\"");
}

TEST(JsonWriter, NumbersComeBackTheSame) {
  ckpt::JsonWriter out;
  out.begin_array().value(0.1).value(3.0).value(1e300).value(INT64_MIN).value(UINT64_MAX);
  out.value(std::numeric_limits<double>::infinity()).value(true).end_array();
  EXPECT_EQ(out.text(), "[0.1,3.0,1e+300,-9223372036854775808,18446744073709551615,null,true]");
}

}  // namespace
