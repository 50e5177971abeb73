#include "libckpt/value.h"

#include <gtest/gtest.h>

#include <functional>

#include "libckpt/entry.h"
#include "libcore/base/error.h"

namespace {

using ckpt::Dict;
using ckpt::Value;
using Kind = Value::Kind;

TEST(Value, KeepsWhatPythonTellsApart) {
  EXPECT_FALSE(Value::integer(1) == Value::boolean(true));
  EXPECT_FALSE(Value::integer(1) == Value::real(1.0));
  EXPECT_FALSE(Value::list({Value::integer(1)}) == Value::tuple({Value::integer(1)}));
  EXPECT_FALSE(Value::text("a") == Value::bytes({std::byte{'a'}}));
  EXPECT_FALSE(Value::bytes({}) == Value::bytearray({}));
  EXPECT_FALSE(Value() == Value::integer(0));
}

TEST(Value, EqualityIsDeepAndOrdered) {
  auto dict = [](std::vector<std::pair<Value, Value>> items, std::string type = "dict") {
    Dict out;
    out.items = std::move(items);
    out.type = std::move(type);
    return Value::dict(std::move(out));
  };
  auto a = std::pair(Value::text("a"), Value::list({Value::integer(1)}));
  auto b = std::pair(Value::integer(2), Value::complex(1, -1));
  EXPECT_TRUE(dict({a, b}) == dict({a, b}));
  EXPECT_FALSE(dict({a, b}) == dict({b, a}));
  EXPECT_FALSE(dict({a}) == dict({a}, "collections.OrderedDict"));
}

TEST(Value, TensorsAreEqualWhenTheyAreTheSameEntry) {
  auto entry = std::make_shared<const ckpt::Entry>();
  EXPECT_TRUE(Value::tensor(entry) == Value::tensor(entry));
  EXPECT_FALSE(Value::tensor(entry) == Value::tensor(std::make_shared<const ckpt::Entry>()));
  EXPECT_EQ(Value::tensor(entry).entry_ptr(), entry);
}

TEST(Value, CopiesShareTheirIdentity) {
  Value list = Value::list({Value::integer(1)});
  Value copy = list;
  EXPECT_EQ(copy.identity(), list.identity());
  EXPECT_NE(Value::list({Value::integer(1)}).identity(), list.identity());
}

TEST(Value, FindLooksForTextKeysOnly) {
  Dict dict;
  dict.items = {{Value::integer(1), Value::text("int")}, {Value::text("1"), Value::text("text")}};
  Value value = Value::dict(dict);
  ASSERT_NE(value.find("1"), nullptr);
  EXPECT_EQ(value.find("1")->as_text(), "text");
  EXPECT_EQ(value.find("2"), nullptr);
  EXPECT_EQ(Value::integer(3).find("1"), nullptr);
}

TEST(Value, SequencesAreFourKinds) {
  for (const Value& value : {Value::list({}), Value::tuple({}), Value::set({}), Value::frozenset({})}) {
    EXPECT_TRUE(value.is_sequence());
    EXPECT_TRUE(value.as_list().empty());
  }
  EXPECT_FALSE(Value::text("").is_sequence());
  EXPECT_FALSE(Value::dict({}).is_sequence());
}

TEST(Value, BigIntegersKeepTheirBytes) {
  Value big = Value::big_integer(core::ByteVector(9, std::byte{1}));
  EXPECT_EQ(big.kind(), Kind::big_integer);
  EXPECT_EQ(big.as_bytes().size(), 9U);
}

TEST(Value, ObjectsCompareAllTheirParts) {
  ckpt::Object size;
  size.symbol = "torch.Size";
  size.form = ckpt::Object::Form::call;
  size.args = Value::tuple({Value::integer(2)});
  ckpt::Object other = size;
  EXPECT_TRUE(Value::object(size) == Value::object(other));
  other.has_state = true;
  EXPECT_FALSE(Value::object(size) == Value::object(other));
}

TEST(Value, IsWrittenAsItIs) {
  EXPECT_EQ(Value(true), Value::boolean(true));
  EXPECT_EQ(Value(3), Value::integer(3));
  EXPECT_EQ(Value(std::size_t{3}), Value::integer(3));
  EXPECT_EQ(Value(0.5F), Value::real(0.5));
  EXPECT_EQ(Value("adam"), Value::text("adam"));
  EXPECT_EQ(Value(std::string_view("adam")), Value::text("adam"));
  const Value tree = Value::dict({{"lr", 0.1}, {1, Value::list({"cat", 2, false})}});
  ASSERT_EQ(tree.as_dict().type, "dict");
  ASSERT_EQ(tree.as_dict().items.size(), 2U);
  EXPECT_EQ(tree.as_dict().items[1].first, Value::integer(1));
  EXPECT_EQ(tree.as_dict().items[1].second,
            Value::list({Value::text("cat"), Value::integer(2), Value::boolean(false)}));
}

TEST(Value, AnUnsignedNumberPast64BitsIsNotNegative) {
  const core::ByteVector bytes = Value(~std::uint64_t{0}).as_bytes();
  ASSERT_EQ(bytes.size(), 9U);
  EXPECT_EQ(bytes[7], std::byte{0xFF});
  EXPECT_EQ(bytes[8], std::byte{0});
}

TEST(Value, ReadAsAnotherKindIsAnErrorThatNamesBoth) {
  const auto refused = [](const std::function<void()>& read) {
    try {
      read();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::ErrorCode::type);
      return error.message();
    }
    return std::string();
  };
  const Value list = Value::list({1});
  EXPECT_EQ(refused([&] { list.as_text(); }), "the value is a list and was read as a str");
  EXPECT_EQ(refused([&] { list.as_bytes(); }), "the value is a list and was read as bytes");
  EXPECT_EQ(refused([&] { list.as_entry(); }), "the value is a list and was read as a tensor");
  EXPECT_EQ(refused([&] { Value(3).as_list(); }), "the value is an int and was read as a list");
  EXPECT_EQ(refused([&] { Value().as_integer(); }), "the value is None and was read as an int");
}

}  // namespace
