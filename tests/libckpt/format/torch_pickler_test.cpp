#include "libckpt/format/torch/value_pickler.h"

#include <gmock/gmock.h>

#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch/pickle_value.h"
#include "libckpt/format/torch/pickle_writer.h"
#include "tests/libckpt/format/pickle_samples.h"

namespace {

using namespace std::string_view_literals;
using ckpt::Dict;
using ckpt::PickledTree;
using ckpt::Value;

class NoStorages final : public ckpt::StorageProvider {
 public:
  std::shared_ptr<const ckpt::Storage> provide(const ckpt::StorageRequest&) override { return nullptr; }
};

core::ByteVector pickled(const Value& value) {
  return ckpt::pickle_tree(value).pickle;
}

Value back(const Value& value) {
  NoStorages storages;
  return ckpt::to_value(ckpt::read_pickle(pickled(value), {}), storages, {});
}

// What CPython's pickle.dumps(n, 2) gives, but for eight-byte LONG1, which libtorch needs.
TEST(Pickler, IntegersTakeTheShortestOpcode) {
  EXPECT_EQ(pickled(Value::integer(255)), test::from_hex("80024bff2e"));
  EXPECT_EQ(pickled(Value::integer(256)), test::from_hex("80024d00012e"));
  EXPECT_EQ(pickled(Value::integer(65536)), test::from_hex("80024a000001002e"));
  EXPECT_EQ(pickled(Value::integer(-1)), test::from_hex("80024affffffff2e"));
  EXPECT_EQ(pickled(Value::integer(1LL << 31)), test::from_hex("80028a0800000080000000002e"));
}

TEST(Pickler, FloatsAreBigEndian) {
  EXPECT_EQ(pickled(Value::real(1.5)), test::from_hex("8002473ff80000000000002e"));
}

TEST(Pickler, EverySampleComesBackAsItWas) {
  NoStorages storages;
  for (std::string_view sample : test::kSamples) {
    Value value = ckpt::to_value(ckpt::read_pickle(test::from_hex(sample), {}), storages, {});
    EXPECT_EQ(back(value), value);
  }
}

TEST(Pickler, BytesBecomeLatin1Text) {
  // pickle.dumps(b'\xff', 2) without its memo opcodes
  EXPECT_EQ(pickled(Value::bytes(test::from_hex("ff"))),
            test::from_text("\x80\x02"
                            "c_codecs\nencode\nq\x00X\x02\x00\x00\x00\xc3\xbfX\x06\x00\x00\x00latin1q\x01\x86R."sv));
}

TEST(Pickler, ListsAreFlushedInThousands) {
  Value::List items(2001, Value::integer(1));
  std::string text(core::as_text(pickled(Value::list(items))));
  EXPECT_EQ(std::count(text.begin(), text.end(), '('), 2);
  EXPECT_EQ(std::count(text.begin(), text.end(), 'e'), 2);
  EXPECT_EQ(std::count(text.begin(), text.end(), 'a'), 1);
  EXPECT_EQ(back(Value::list(items)).as_list().size(), 2001U);
}

TEST(Pickler, DictsAreFlushedInThousands) {
  Dict dict;
  for (int i = 0; i < 2001; ++i) dict.items.emplace_back(Value::integer(i), Value());
  EXPECT_EQ(back(Value::dict(dict)), Value::dict(dict));
}

TEST(Pickler, AnAliasIsWrittenOnce) {
  Value shared = Value::list({Value::integer(7)});
  Value read = back(Value::tuple({shared, shared}));
  EXPECT_EQ(read.as_list()[0].identity(), read.as_list()[1].identity());
  Value apart = back(Value::tuple({Value::list({Value::integer(7)}), Value::list({Value::integer(7)})}));
  EXPECT_NE(apart.as_list()[0].identity(), apart.as_list()[1].identity());
}

TEST(Pickler, TheSameTreeGivesTheSameBytes) {
  auto tree = [] {
    Dict dict;
    dict.type = "collections.OrderedDict";
    dict.items.emplace_back(Value::text("a"), Value::set({Value::integer(1), Value::integer(2)}));
    dict.items.emplace_back(Value::text("b"), Value::bytes({}));
    return Value::dict(std::move(dict));
  };
  EXPECT_EQ(pickled(tree()), pickled(tree()));
}

TEST(Pickler, MemoNumbersPastAByteAreWide) {
  ckpt::PickleWriter writer;
  for (int i = 0; i < 257; ++i) {
    writer.none();
    EXPECT_EQ(writer.put(), static_cast<std::uint32_t>(i));
  }
  writer.get(256);
  core::ByteVector bytes = writer.take();
  EXPECT_EQ(core::ByteVector(bytes.end() - 10, bytes.end()), test::from_hex("72000100006a00010000"));
}

}  // namespace
