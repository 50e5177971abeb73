// The quick reading of plain safetensors headers beside the JSON document: whatever the quick one takes, the other
// takes as the same.

#include "libckpt/format/safetensors/plain_header.h"

#include <gtest/gtest.h>

#include <random>

#include "libcore/base/error.h"

namespace {

using ckpt::detail::SafetensorsHeader;

const std::string kUsual =
    R"({"__metadata__":{"format":"pt"},"a.w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("a.b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},"c":{"dtype":"F4","shape":[4],"data_offsets":[26,28]}}  )";

/// True when the quick reader took it, after which the JSON document has to say the same.
bool is_plain(const std::string& text, const ckpt::OpenOptions& options = {}) {
  SafetensorsHeader quick, json;
  quick.text = json.text = text;
  if (!ckpt::detail::read_plain_header(quick, options.limits)) {
    EXPECT_TRUE(quick.items.empty() && quick.metadata.empty()) << text;
    return false;
  }
  EXPECT_NO_THROW(ckpt::detail::read_json_header(json, options)) << text;
  EXPECT_EQ(quick.metadata, json.metadata) << text;
  EXPECT_EQ(quick.metadata_text.begin, json.metadata_text.begin) << text;
  EXPECT_EQ(quick.metadata_text.end, json.metadata_text.end) << text;
  EXPECT_EQ(quick.items.size(), json.items.size()) << text;
  for (std::size_t i = 0; i < std::min(quick.items.size(), json.items.size()); ++i) {
    const auto &a = quick.items[i], &b = json.items[i];
    EXPECT_EQ(a.name, b.name) << text;
    EXPECT_EQ(a.dtype, b.dtype) << text;
    EXPECT_EQ(a.shape, b.shape) << text;
    EXPECT_EQ(std::pair(a.begin, a.end), std::pair(b.begin, b.end)) << text;
    EXPECT_EQ(std::pair(a.text.begin, a.text.end), std::pair(b.text.begin, b.text.end)) << text;
  }
  return true;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlainHeader, TakesWhatWritersWrite) {
  EXPECT_TRUE(is_plain(kUsual));
  EXPECT_TRUE(is_plain("{}"));
  EXPECT_TRUE(is_plain(R"({"__metadata__":{}})"));
  // As json.dumps spaces it, and fields in another order.
  EXPECT_TRUE(is_plain(R"({"w": {"shape": [1, 2], "data_offsets": [0, 2], "dtype": "U8"}})"));
  EXPECT_TRUE(
      is_plain("{\n  \"w\": {\n    \"dtype\": \"U8\",\n    \"shape\": [],\n    \"data_offsets\": [0, 1]\n  }\n}\n"));
  EXPECT_TRUE(is_plain(
      R"({"__metadata__":{"a":"{\"b\": [1, 2]}","c":"\u00e9"},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"));
}

TEST(PlainHeader, LeavesTheRestToTheDocument) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"a.w", "a\\u002ew"},  // an escape
           {"a.w",
            "gr\xc3\xb6\xc3\x9f"
            "e"},                    // not ASCII
           {"a.w", "a\tw"},          // a control character, which no JSON text has
           {"a.b", "a.w"},           // twice
           {"a.w", "__metadata__"},  // twice
           {"F32", "F33"},           // unknown
           {"F32", ""},              //
           {"[2,3]", "[2,03]"},      // no JSON number
           {"[2,3]", "[2,-3]"},      //
           {"[2,3]", "[2,3.0]"},     //
           {"[2,3]", "[2,3e0]"},     //
           {"[2,3]", "[2,3,]"},      //
           {"[2,3]", "[2 3]"},       //
           {"[2,3]", "[[2,3]]"},     //
           {"[2,3]", "[4,3]"},       // other bytes
           {"[2,3]", "[4611686018427387904,9223372036854775807]"},
           {"[2,3]", "[999999999999999999999999,3]"},
           {"[0,24]", "[24,0]"},
           {"[0,24]", "[0]"},
           {"[0,24]", "[0,12,24]"},
           {",\"shape\":[2,3]", ""},  // a field is missing
           {"\"shape\":[2,3]", "\"shape\":[2,3],\"shape\":[2,3]"},
           {"\"shape\":[2,3]", "\"shape\":[2,3],\"more\":1"},
           {"{\"format\":\"pt\"}", "{\"format\":1}"},
           {"{\"format\":\"pt\"}", "{\"format\":\"pt\",\"format\":\"pt\"}"},
           {"{\"format\":\"pt\"}", "{\"format\":\"pt\"]"},
           {"{\"format\":\"pt\"}", "{\"format\":\"pt"},
           {"{\"format\":\"pt\"}", "null"},
           {"{\"format\":\"pt\"}", "[]"},
           {"}}  ", "}} x"},
           {"}}  ", "},}"},
           {"}}  ", "}"},
           {"[4]", "[3]"}}) {  // half a byte of F4
    EXPECT_FALSE(is_plain(replaced(kUsual, from, to))) << from << " -> " << to;
  }
  EXPECT_FALSE(is_plain(""));
  EXPECT_FALSE(is_plain("[]"));
  EXPECT_FALSE(is_plain("{} {}"));
  EXPECT_FALSE(is_plain(kUsual + std::string(1, '\0')));
}

TEST(PlainHeader, KeepsLimits) {
  ckpt::OpenOptions options;
  options.limits.max_tensors = 2;
  EXPECT_FALSE(is_plain(kUsual, options));
  options = {};
  options.limits.max_name = 2;
  EXPECT_FALSE(is_plain(kUsual, options));
  options = {};
  options.limits.max_rank = 1;
  EXPECT_FALSE(is_plain(kUsual, options));
  options = {};
  options.limits.max_json_depth_header = 4;
  EXPECT_TRUE(is_plain(kUsual, options));
  options.limits.max_json_depth_header = 3;
  EXPECT_FALSE(is_plain(kUsual, options));
}

/// Damage of any kind, most of it near what is plain.
TEST(PlainHeader, AgreesOnDamagedTexts) {
  std::mt19937 random(7);
  auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string letters = "{}[]\",:0123456789 \\\n-.eFUB\xc3";
  int taken = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::string text = kUsual;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = letters[below(letters.size())];
          break;
        case 1:
          text.insert(at, 1, letters[below(letters.size())]);
          break;
        case 2:
          text.erase(at, 1 + below(6));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
      }
      if (text.empty()) break;
    }
    taken += is_plain(text) ? 1 : 0;
  }
  EXPECT_GT(taken, 1000);  // else this tests nothing
}

}  // namespace
