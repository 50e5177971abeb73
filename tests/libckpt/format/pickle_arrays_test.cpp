#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "libckpt/ckpt.h"
#include "libckpt/scan.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/one_file.h"
#include "tests/libckpt/format/pickle_maker.h"

namespace {

using core::Error;
using core::ErrorCode;
using testing::HasSubstr;

std::string bytes(const std::string& content) {
  return "B" + test::raw(static_cast<std::uint32_t>(content.size())) + content;
}
std::string dtype(const std::string& code, const std::string& order = "<") {
  std::string state =
      test::tuple({test::number(3), test::text(order), test::none(), test::none(), test::none(), test::number(-1)});
  return test::call(test::symbol("numpy", "dtype"), {test::text(code), "\x89", "\x88"}) + state + "b";
}
/// numpy.core: the names of NumPy 1.
std::string array(const std::vector<std::int32_t>& shape, const std::string& type, const std::string& values,
                  const std::string& fortran = "\x89") {
  std::string empty = test::call(test::symbol("numpy.core.multiarray", "_reconstruct"),
                                 {test::symbol("numpy", "ndarray"), test::numbers({0}), bytes("b")});
  return empty + test::tuple({test::number(1), test::numbers(shape), type, fortran, values}) + "b";
}
std::string file_of(const std::vector<std::pair<std::string, std::string>>& items) {
  return test::pickle(test::pickled_dict(items));
}

struct PickleArrays : test::OneFile {
  PickleArrays() : OneFile("a.pkl") {}
};

TEST_F(PickleArrays, ValuesOfEitherOrderOfBytesAndDimensions) {
  ckpt::Checkpoint read = open(file_of({{test::text("w"), array({2}, dtype("i2"), bytes("abcd"))},
                                        {test::text("big"), array({2}, dtype("i2", ">"), bytes("abcd"))},
                                        {test::text("columns"), array({2, 2}, dtype("i1"), bytes("abcd"), "\x88")}}));
  EXPECT_EQ(read.format, "pickle");
  EXPECT_EQ(values(read, "w"), "abcd");
  EXPECT_EQ(values(read, "big"), "badc");
  EXPECT_EQ(values(read, "columns"), "acbd");
}

TEST_F(PickleArrays, LongValuesStayInTheFile) {
  const std::string content(100'000, 'x');
  ckpt::Checkpoint read = open(file_of({{test::text("w"), array({100'000}, dtype("u1"), bytes(content))}}));
  EXPECT_TRUE(read.root.find("w")->as_entry().bytes->file_range());
  EXPECT_EQ(values(read, "w"), content);
}

TEST_F(PickleArrays, WhatLooksLikeALongRunIsOnlyItself) {
  // The words that stand for a run, in a file that has them by itself and no run behind them.
  std::string fake = "ckpt: a long run" + test::raw(std::uint64_t{7});
  EXPECT_EQ(values(open(file_of({{test::text("w"), array({24}, dtype("u1"), bytes(fake))}})), "w"), fake);
}

TEST_F(PickleArrays, ShapeAndValuesMustAgree) {
  EXPECT_THAT(refusal(file_of({{test::text("w"), array({3}, dtype("f4"), bytes("abcd"))}})),
              HasSubstr("'w': an array of shape [3] and type f4 has 4 bytes of values"));
  EXPECT_THAT(refusal(file_of({{test::text("w"), array({-1}, dtype("f4"), bytes("abcd"))}})),
              HasSubstr("dimension that is no size"));
  EXPECT_THAT(refusal(file_of({{test::text("w"), array({1}, dtype("f4"), test::number(1))}})),
              HasSubstr("has no values"));
}

TEST_F(PickleArrays, NothingIsRun) {
  std::string call = test::call(test::symbol("os", "system"), {test::text("touch ran")});
  std::string content = file_of({{test::text("w"), array({4}, dtype("u1"), bytes("abcd"))}, {test::text("x"), call}});
  EXPECT_THAT(refusal(content, ErrorCode::refused), HasSubstr("'os.system'"));
  EXPECT_EQ(test::list_folder(dir_.path()).size(), 1U);
  EXPECT_EQ(ckpt::scan(path_).verdict(), "dangerous");
}

TEST_F(PickleArrays, ArraysOfObjectsStayObjects) {
  std::string objects = array({1}, dtype("O8", "|"), test::list({test::text("a")}));
  ckpt::Report report;
  ckpt::Checkpoint read =
      open(file_of({{test::text("w"), array({4}, dtype("u1"), bytes("abcd"))}, {test::text("o"), objects}}),
           {.report = &report});
  EXPECT_TRUE(read.root.find("o")->is(ckpt::Value::Kind::object));
  EXPECT_THAT(report.warnings, testing::Contains(HasSubstr("stay objects: O8")));
}

TEST_F(PickleArrays, BytesBehindItAreRefused) {
  std::string content = file_of({{test::text("w"), array({4}, dtype("u1"), bytes("abcd"))}});
  EXPECT_THAT(refusal(content + "more"), HasSubstr("4 bytes after the pickle belong to nothing"));
  test::write_file(path_, content + "more");
  EXPECT_EQ(ckpt::list_entries(ckpt::open(path_, {.lenient = true}).root).size(), 1U);
}

TEST_F(PickleArrays, EveryBeginningOfAFileIsRefused) {
  const std::string whole = file_of({{test::text("w"), array({4}, dtype("u1"), bytes("abcd"))}});
  expect_every_beginning_refused(whole);
}

/// As joblib.dump writes an array; `padding`: what stands before the values, nullopt in files before joblib 1.2.
std::string wrapped(const std::vector<std::int32_t>& shape, const std::string& type, const std::string& values,
                    const std::optional<std::string>& padding = "\x02\xff\xff", const std::string& order = "C") {
  std::vector<std::pair<std::string, std::string>> state = {{test::text("subclass"), test::symbol("numpy", "ndarray")},
                                                            {test::text("shape"), test::numbers(shape)},
                                                            {test::text("order"), test::text(order)},
                                                            {test::text("dtype"), type}};
  if (padding) state.emplace_back(test::text("numpy_array_alignment_bytes"), test::number(16));
  return test::instance(test::symbol("joblib.numpy_pickle", "NumpyArrayWrapper"), test::pickled_dict(state)) +
         padding.value_or("") + values;
}

TEST_F(PickleArrays, OfJoblibLieBetweenTheOpcodes) {
  for (const std::optional<std::string>& padding : {std::optional<std::string>("\x02\xff\xff"), {}}) {
    ckpt::Checkpoint read = open(file_of({{test::text("w"), wrapped({2, 2}, dtype("u1"), ".b(R", padding)},
                                          {test::text("n"), test::number(3)},
                                          {test::text("none"), wrapped({0, 5}, dtype("f4"), "", padding)},
                                          {test::text("columns"), wrapped({2, 2}, dtype("i1"), "abcd", padding, "F")},
                                          {test::text("big"), wrapped({2}, dtype("i2", ">"), "abcd", padding)}}));
    EXPECT_EQ(read.format, "pickle");
    EXPECT_EQ(values(read, "w"), ".b(R");
    EXPECT_EQ(read.root.find("n")->as_integer(), 3);
    EXPECT_EQ(read.root.find("none")->as_entry().shape, (core::Shape{0, 5}));
    EXPECT_EQ(values(read, "columns"), "acbd");
    EXPECT_EQ(values(read, "big"), "badc");
    EXPECT_TRUE(read.root.find("w")->as_entry().bytes->file_range());
  }
}

TEST_F(PickleArrays, OfJoblibSayHowLongTheyAre) {
  auto refused = [&](const std::string& array, ErrorCode code = ErrorCode::corrupt) {
    return refusal(file_of({{test::text("w"), array}}), code);
  };
  EXPECT_THAT(refused(wrapped({4'000}, dtype("f4"), "abcd")), HasSubstr("an array of 16,000 bytes begins at byte"));
  EXPECT_THAT(refused(wrapped({-1}, dtype("f4"), "abcd")), HasSubstr("dimension that is no size"));
  EXPECT_THAT(refused(wrapped({1 << 30, 1 << 30, 1 << 30}, dtype("f4"), "abcd")), HasSubstr("impossible size"));
  EXPECT_THAT(refused(wrapped({1}, test::number(1), "abcd")), HasSubstr("says no size"));
  EXPECT_THAT(refused(wrapped({1}, dtype("O8", "|"), "abcd"), ErrorCode::unsupported), HasSubstr("Python's objects"));
  expect_every_beginning_refused(file_of({{test::text("w"), wrapped({4}, dtype("u1"), "abcd")}}));
}

TEST_F(PickleArrays, OfJoblibAreScannedWithoutTheirValues) {
  const std::string call = test::call(test::symbol("os", "system"), {test::text("touch ran")});
  test::write_file(path_, file_of({{test::text("w"), wrapped({4}, dtype("u1"), "abcd")}}));
  EXPECT_EQ(ckpt::scan(path_).verdict(), "clean");
  test::write_file(path_, file_of({{test::text("w"), wrapped({4}, dtype("u1"), "abcd")}, {test::text("x"), call}}));
  EXPECT_EQ(ckpt::scan(path_).verdict(), "dangerous");
  // Without the byte before them, values are opcodes to whatever reads it as a plain pickle.
  const std::string hidden = call + "0";
  const auto length = static_cast<std::int32_t>(hidden.size());
  test::write_file(path_, file_of({{test::text("w"), wrapped({length}, dtype("u1"), hidden, {})}}));
  EXPECT_EQ(ckpt::scan(path_).verdict(), "dangerous");
}

/// As paddle.save writes a state dict: arrays, and a table of what the parameters are called in the program.
std::string paddle_names(const std::string& name) {
  return test::pickled_dict({{test::text(name), test::text("linear_0." + name)}});
}

/// What paddle.save(protocol=2) makes of parameters that are too long for one pickle.
std::string paddle_table(const std::string& name, const std::vector<std::int32_t>& shape,
                         const std::vector<std::string>& slices) {
  std::vector<std::string> names;
  for (const std::string& slice : slices) names.push_back(test::text(slice));
  const std::string how = test::pickled_dict(
      {{test::text("OriginShape"), test::numbers(shape)}, {test::text("slices"), test::list(names)}});
  return test::pickled_dict({{test::text(name), how}});
}

std::vector<std::string> keys_of(const ckpt::Checkpoint& read) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : read.root.as_dict().items) keys.push_back(key.as_text());
  return keys;
}

TEST_F(PickleArrays, OfPaddleAreStateDictsOfEitherProtocol) {
  const std::string names = "StructuredToParameterName@@";
  const std::string items = test::pickled_dict(
      {{test::text("w"), array({2, 2}, dtype("i1"), bytes("abcd"))}, {test::text(names), paddle_names("w")}});
  for (const char* protocol : {"\x80\x02", "\x80\x03", "\x80\x04"}) {
    ckpt::Checkpoint read = open(protocol + items + ".");
    EXPECT_EQ(values(read, "w"), "abcd");
    EXPECT_EQ(read.root.find("w")->as_entry().shape, (core::Shape{2, 2}));
    EXPECT_EQ(read.root.find(names)->find("w")->as_text(), "linear_0.w");
  }
}

TEST_F(PickleArrays, OfPaddleInATreeArePairsOfNameAndArray) {
  const std::string pair = test::tuple({test::text("linear_0.w_0"), array({4}, dtype("u1"), bytes("abcd"))});
  const std::string tensor = test::call(test::symbol("builtins", "tuple"), {pair});
  ckpt::Checkpoint read = open(file_of({{test::text("model"), test::pickled_dict({{test::text("w"), tensor}})}}));
  const ckpt::Value* made = read.root.find("model")->find("w");
  ASSERT_TRUE(made->is(ckpt::Value::Kind::tensor));
  EXPECT_EQ(core::as_text(ckpt::read_all(*made->as_entry().bytes)), "abcd");
}

TEST_F(PickleArrays, OfPaddleThatWereCutIntoSlicesAreWhole) {
  ckpt::Checkpoint read =
      open(file_of({{test::text("fc.w@@.0"), array({4}, dtype("i2"), bytes("abcdefgh"))},
                    {test::text("b"), array({1}, dtype("u1"), bytes("z"))},
                    {test::text("fc.w@@.1"), array({2}, dtype("i2"), bytes("ijkl"))},
                    {test::text("UnpackBigParamInfor@@"), paddle_table("fc.w", {3, 2}, {"fc.w@@.0", "fc.w@@.1"})}}));
  EXPECT_THAT(keys_of(read), testing::ElementsAre("b", "fc.w"));
  const ckpt::Entry& whole = read.root.find("fc.w")->as_entry();
  EXPECT_EQ(whole.shape, (core::Shape{3, 2}));
  EXPECT_EQ(whole.dtype, core::DType::i16);
  EXPECT_EQ(core::as_text(ckpt::read_all(*whole.bytes)), "abcdefghijkl");
}

TEST_F(PickleArrays, OfPaddleAreRefusedWhereSlicesDoNotMakeThem) {
  const auto refused = [&](const std::string& table, const std::string& second = "i2") {
    return refusal(file_of({{test::text("w@@.0"), array({2}, dtype("i2"), bytes("abcd"))},
                            {test::text("w@@.1"), array({2}, dtype(second), bytes("efgh"))},
                            {test::text("note"), test::text("no tensor")},
                            {test::text("UnpackBigParamInfor@@"), table}}));
  };
  EXPECT_THAT(refused(paddle_table("w", {5}, {"w@@.0", "w@@.1"})),
              HasSubstr("'w': its slices have 8 bytes, which do not make the shape [5]"));
  EXPECT_THAT(refused(paddle_table("w", {1 << 30, 1 << 30, 1 << 30}, {"w@@.0"})), HasSubstr("do not make the shape"));
  EXPECT_THAT(refused(paddle_table("w", {-4}, {"w@@.0", "w@@.1"})), HasSubstr("dimension that is no size"));
  EXPECT_THAT(refused(paddle_table("w", {4}, {"w@@.0", "w@@.2"})), HasSubstr("slice 'w@@.2' is not in the file"));
  EXPECT_THAT(refused(paddle_table("w", {4}, {"w@@.0", "note"})), HasSubstr("slice 'note' is not in the file"));
  EXPECT_THAT(refused(paddle_table("w", {4}, {"w@@.0", "w@@.0"})), HasSubstr("slice 'w@@.0' is listed twice"));
  EXPECT_THAT(refused(paddle_table("w", {4}, {"w@@.0", "w@@.1"}), "u2"), HasSubstr("has another type"));
  EXPECT_THAT(refused(paddle_table("w", {4}, {})), HasSubstr("does not say which"));
  EXPECT_THAT(refused(paddle_table("note", {4}, {"w@@.0", "w@@.1"})), HasSubstr("both 'note' and slices that make it"));
  EXPECT_THAT(refused(test::number(3)), HasSubstr("Paddle's table of slices is no dict"));
  EXPECT_THAT(refused(test::pickled_dict({{test::number(1), test::number(2)}})), HasSubstr("a name that is no text"));
}

TEST_F(PickleArrays, OthersAreNoCheckpoints) {
  EXPECT_THAT(refusal(file_of({{test::text("w"), test::number(1)}}), ErrorCode::unsupported), HasSubstr("bare pickle"));
}

}  // namespace
