#include "libckpt/format/torch/pickle_reader.h"

#include <gmock/gmock.h>

#include "libckpt/checkpoint.h"
#include "libckpt/format/torch/loops.h"
#include "libckpt/format/torch/pickle_value.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/pickle_samples.h"

namespace {

using namespace std::string_view_literals;
using ckpt::Limits;
using ckpt::OpenOptions;
using ckpt::Report;
using ckpt::Value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Storages of a pickle without an archive: one of each size that is asked for.
class BlankStorages final : public ckpt::StorageProvider {
 public:
  std::shared_ptr<const ckpt::Storage> provide(const ckpt::StorageRequest& request) override {
    auto storage = std::make_shared<ckpt::Storage>();
    storage->dtype = request.dtype;
    storage->location = request.location;
    storage->bytes = ckpt::memory_source(core::ByteVector(request.bytes));
    return storage;
  }
};

Value load(core::ByteVector pickle, const OpenOptions& options = {}) {
  BlankStorages storages;
  return ckpt::to_value(ckpt::read_pickle(std::move(pickle), options.limits), storages, options);
}
Value load(std::string_view pickle, const OpenOptions& options = {}) {
  return load(test::from_text(pickle), options);
}

/// What was thrown, or "" and code internal.
core::Error error_of(std::string_view pickle, const OpenOptions& options = {}) {
  try {
    load(pickle, options);
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorCode::internal, ""};
}

OpenOptions foreign(Report* report = nullptr) {
  OpenOptions options;
  options.foreign_objects = true;
  options.report = report;
  return options;
}

Value ints(std::initializer_list<std::int64_t> numbers) {
  Value::List items;
  for (std::int64_t n : numbers) items.push_back(Value::integer(n));
  return Value::tuple(std::move(items));
}

class EveryProtocol : public ::testing::TestWithParam<int> {};

TEST_P(EveryProtocol, GivesTheSameValues) {
  Value root = load(test::from_hex(test::kSamples[static_cast<std::size_t>(GetParam())]));
  EXPECT_EQ(root.find("t")->as_text(), "h\xc3\xa9\xed\xa0\x80");
  EXPECT_TRUE(root.find("n")->is_null());
  EXPECT_THAT(root.find("b")->as_list(), ElementsAre(Value::boolean(true), Value::boolean(false)));
  EXPECT_EQ(root.find("f")->as_real(), 1.5);
  EXPECT_EQ(root.find("c")->as_complex(), std::make_pair(1.0, 2.0));
  EXPECT_EQ(*root.find("y"), Value::bytes(test::from_hex("00ff")));
  EXPECT_EQ(*root.find("ba"), Value::bytearray(test::from_hex("7880")));
  EXPECT_EQ(*root.find("s"), Value::set({Value::integer(7)}));
  EXPECT_EQ(*root.find("fs"), Value::frozenset({Value::integer(3)}));
  EXPECT_THAT(root.find("tt")->as_list(),
              ElementsAre(ints({}), ints({1}), ints({1, 2}), ints({1, 2, 3}), ints({1, 2, 3, 4})));
  EXPECT_EQ(root.find("od")->as_dict().type, "collections.OrderedDict");
  EXPECT_EQ(*root.find("od")->find("k"), Value::integer(1));
  EXPECT_EQ(root.as_dict().items.back().first, Value::integer(5));
}

TEST_P(EveryProtocol, KeepsIntegersOfAnySize) {
  Value root = load(test::from_hex(test::kSamples[static_cast<std::size_t>(GetParam())]));
  EXPECT_THAT(root.find("i")->as_list(),
              ElementsAre(Value::integer(0), Value::integer(255), Value::integer(256), Value::integer(65536),
                          Value::integer(-1), Value::integer(1LL << 31), Value::integer(INT64_MIN),
                          Value::big_integer(test::from_hex("000000000000000040")),
                          Value::big_integer(test::from_hex("0000000000000000c0"))));
}

INSTANTIATE_TEST_SUITE_P(Pickle, EveryProtocol, ::testing::Range(0, 6));

TEST(Pickle, AliasesStayOneObject) {
  Value root = load(
      "\x80\x02]q\x00(]q\x01K\x01"sv
      "ah\x01"
      "e.");
  ASSERT_EQ(root.as_list().size(), 2U);
  EXPECT_EQ(root.as_list()[0].identity(), root.as_list()[1].identity());
}

TEST(Pickle, ChangesThroughTheMemoAreSeen) {
  Value root = load(
      "]q\x00h\x00K\x07"
      "a0."sv);
  EXPECT_THAT(root.as_list(), ElementsAre(Value::integer(7)));
}

TEST(Pickle, AMemoEntryMayBeOverwritten) {
  EXPECT_EQ(load("K\x01q\x00"
                 "0K\x02q\x00"
                 "0h\x00."sv)
                .as_integer(),
            2);
}

TEST(Pickle, Python2BytesThatAreNoUtf8StayBytes) {
  EXPECT_EQ(load("U\x02hi."sv), Value::text("hi"));
  EXPECT_EQ(load("U\x02\xff\xfe."sv), Value::bytes(test::from_hex("fffe")));
}

TEST(Pickle, EqualKeysAreOneKeyAsInPython) {
  Report report;
  OpenOptions options;
  options.report = &report;
  Value root = load("}(K\x01K\x0a\x88K\x0bu."sv, options);
  ASSERT_EQ(root.as_dict().items.size(), 1U);
  EXPECT_EQ(root.as_dict().items[0].first, Value::integer(1));
  EXPECT_EQ(root.as_dict().items[0].second, Value::integer(11));
  EXPECT_EQ(report.warnings.size(), 1U);
}

TEST(Pickle, TextAndIntegerKeysDiffer) {
  EXPECT_EQ(load("}(K\x01K\x0aX\x01\x00\x00\x00"
                 "1K\x0bu."sv)
                .as_dict()
                .items.size(),
            2U);
}

TEST(Pickle, UnhashableKeysAreRefused) {
  EXPECT_EQ(error_of("}]K\x01s."sv).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(error_of("}]\x85K\x01s."sv).code(), core::ErrorCode::corrupt);
}

TEST(Pickle, ForeignSymbolsAreAllNamedInOneRefusal) {
  core::Error error = error_of("(ca.b\nC\nN\x85Rcd\nF\nN\x85Rt.");
  EXPECT_EQ(error.code(), core::ErrorCode::refused);
  EXPECT_THAT(error.what(), HasSubstr("'a.b.C'"));
  EXPECT_THAT(error.what(), HasSubstr("'d.F'"));
}

TEST(Pickle, ForeignSymbolsAreNamedAlsoWhenTheirResultIsDropped) {
  EXPECT_THAT(error_of("(ca.b\nC\nN\x85R0t.").what(), HasSubstr("'a.b.C'"));
}

TEST(Pickle, ForeignSymbolsAreNamedAlsoWhenTheStreamIsDamagedBehindThem) {
  core::Error error = error_of("ca.b\nC\n)R\xff");
  EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
  EXPECT_THAT(error.what(), HasSubstr("'a.b.C'"));
}

TEST(Pickle, ForeignObjectsAreKeptInertOnRequest) {
  Report report;
  Value value = load("ca.b\nC\n)\x81}X\x01\x00\x00\x00xK\x05sb."sv, foreign(&report));
  ASSERT_TRUE(value.is(Value::Kind::object));
  EXPECT_EQ(value.as_object().symbol, "a.b.C");
  EXPECT_EQ(value.as_object().form, ckpt::Object::Form::instance);
  EXPECT_EQ(*value.as_object().state.find("x"), Value::integer(5));
  EXPECT_THAT(report.warnings, ::testing::Contains(HasSubstr("'a.b.C'")));
}

TEST(Pickle, FunctionsOfTheSystemAreRefusedEvenOnRequest) {
  EXPECT_EQ(error_of("cposix\nsystem\nX\x02\x00\x00\x00ls\x85R."sv, foreign()).code(), core::ErrorCode::refused);
  EXPECT_EQ(error_of("c__builtin__\neval\nN\x85R."sv, foreign()).code(), core::ErrorCode::refused);
  EXPECT_EQ(error_of("\x80\x04\x8c\x01m\x8c\x03"
                     "a.b\x93)R."sv,
                     foreign())
                .code(),
            core::ErrorCode::refused);
}

TEST(Pickle, EnumMembersAreTheOnlyUseOfGetattr) {
  Value member =
      load("c__builtin__\ngetattr\nctransformers.trainer_utils\nSchedulerType\nX\x06\x00\x00\x00LINEAR\x86R."sv);
  EXPECT_EQ(member.as_object().symbol, "builtins.getattr");
  EXPECT_EQ(error_of("c__builtin__\ngetattr\nX\x01\x00\x00\x00sX\x05\x00\x00\x00upper\x86R."sv).code(),
            core::ErrorCode::refused);
}

TEST(Pickle, ComputedNamesAndCallablesAreNeverAccepted) {
  EXPECT_EQ(error_of("\x80\x04K\x01\x8c\x01x\x93."sv, foreign()).code(), core::ErrorCode::refused);
  EXPECT_EQ(error_of("ca\nb\n)R)R."sv, foreign()).code(), core::ErrorCode::refused);
  EXPECT_EQ(error_of("\x82\x01."sv).code(), core::ErrorCode::refused);
  EXPECT_EQ(error_of("\x80\x05\x97."sv).code(), core::ErrorCode::refused);
}

TEST(Pickle, PartsOfOneRankOfFsdpAreNamed) {
  const core::Error error =
      error_of("ctorch.distributed._shard.sharded_tensor.api\nShardedTensor\n)\x81."sv, foreign());
  EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
  EXPECT_THAT(error.what(), HasSubstr("one rank's parts of an FSDP model"));
}

TEST(Pickle, OldWaysToMakeObjectsAreSeen) {
  EXPECT_THAT(error_of("(ia\nB\n.").what(), HasSubstr("'a.B'"));
  EXPECT_THAT(error_of("(ca\nB\no.").what(), HasSubstr("'a.B'"));
  EXPECT_THAT(error_of("\x80\x04\x8c\x01"
                       "a\x8c\x01"
                       "B\x93)}\x92."sv)
                  .what(),
              HasSubstr("'a.B'"));
}

TEST(Pickle, EveryTargetIsChecked) {
  EXPECT_EQ(error_of("]K\x01K\x02s."sv).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(error_of("}K\x01"
                     "a."sv)
                .code(),
            core::ErrorCode::corrupt);
  EXPECT_EQ(error_of("]}b."sv).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(error_of("\x80\x04]\x28K\x01\x90."sv).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(error_of("ctorch\nSize\n)\x85R}b."sv).code(), core::ErrorCode::corrupt);
}

TEST(Pickle, StackAndMarksAreFenced) {
  EXPECT_EQ(error_of("K\x01(\x85."sv).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(error_of("t."sv).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(error_of("."sv).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(error_of("K\x01K\x02."sv).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(load("(K\x01"
                 "1K\x02."sv),
            Value::integer(2));
}

TEST(Pickle, FramesMustHoldTheirOpcodes) {
  EXPECT_EQ(load("\x80\x04\x95\x03\0\0\0\0\0\0\0K\x01."sv), Value::integer(1));
  EXPECT_THAT(error_of("\x80\x04\x95\x01\0\0\0\0\0\0\0K\x01."sv).what(), HasSubstr("frame"));
  EXPECT_THAT(error_of("\x80\x04\x95\x0c\0\0\0\0\0\0\0\x95\x03\0\0\0\0\0\0\0K\x01."sv).what(), HasSubstr("frame"));
}

TEST(Pickle, AnObjectThatContainsItselfIsRefused) {
  core::Error error = error_of(
      "]q\x00h\x00"
      "a."sv);
  EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
  EXPECT_THAT(error.what(), HasSubstr("contains itself"));
}

// argparse.Namespace() whose attribute "self" is the namespace itself
constexpr std::string_view kLoop = "cargparse\nNamespace\n)\x81q\x00}X\x04\x00\x00\x00selfh\x00sb."sv;

TEST(Pickle, AnObjectMayLeadBackToItself) {
  Value value = load(kLoop);
  std::optional<ckpt::Label> label = ckpt::as_label(value.as_object());
  ASSERT_TRUE(label);
  EXPECT_EQ(label->object->symbol, "argparse.Namespace");
  EXPECT_EQ(ckpt::reference_number(label->object->state.find("self")->as_object()), label->number);
}

TEST(Pickle, NoPickleCanForgeALabel) {
  EXPECT_EQ(error_of("cckpt\nlabel\n(K\x00NtR."sv, foreign()).code(), core::ErrorCode::refused);
}

TEST(Pickle, KeysAreHeldToTheirLength) {
  OpenOptions options;
  options.limits.max_name = 3;
  EXPECT_NO_THROW(
      load("}X\x03\x00\x00\x00"
           "abcNs."sv,
           options));
  EXPECT_EQ(error_of("}X\x04\x00\x00\x00"
                     "abcdNs."sv,
                     options)
                .code(),
            core::ErrorCode::refused);
}

TEST(Pickle, LimitsHoldToTheUnit) {
  std::string_view pickle = "\x80\x02K\x01K\x02\x86q\x00."sv;  // 6 opcodes, 2 objects open at once, 1 memo entry
  OpenOptions options;
  options.limits.max_pickle_opcodes = 6;
  options.limits.max_pickle_stack = 2;
  options.limits.max_pickle_memo = 1;
  EXPECT_EQ(load(pickle, options), ints({1, 2}));
  options.limits.max_pickle_opcodes = 5;
  EXPECT_EQ(error_of(pickle, options).code(), core::ErrorCode::refused);
  options.limits.max_pickle_opcodes = 6;
  options.limits.max_pickle_stack = 1;
  EXPECT_EQ(error_of(pickle, options).code(), core::ErrorCode::refused);
  options.limits.max_pickle_stack = 2;
  options.limits.max_pickle_memo = 0;
  EXPECT_EQ(error_of(pickle, options).code(), core::ErrorCode::refused);
}

TEST(Pickle, AFarMemoNumberCostsNothing) {
  EXPECT_EQ(load("K\x05r\xff\xff\xff\xff"
                 "0j\xff\xff\xff\xff."sv),
            Value::integer(5));
}

TEST(Pickle, DeepNestingIsRefusedBeforeAnythingRecurses) {
  std::string pickle = ")" + std::string(200'000, '\x85') + ".";
  EXPECT_EQ(error_of(pickle).code(), core::ErrorCode::refused);
}

TEST(Pickle, StateDictVersionsStayWithTheirDict) {
  Value root = load(
      "ccollections\nOrderedDict\n)R}X\x09\x00\x00\x00_metadataccollections\nOrderedDict\n)RX\x02\x00\x00\x00"
      "fc}X\x07\x00\x00\x00versionK\x02sssb."sv);
  std::vector<std::pair<std::string, std::int64_t>> versions = ckpt::module_versions(root.as_dict());
  EXPECT_THAT(versions, ElementsAre(std::make_pair(std::string("fc"), 2)));
}

TEST(Pickle, ErrorsSayWhereInTheDataTheyAre) {
  core::Error error = error_of("}X\x05\x00\x00\x00model}X\x01\x00\x00\x00wc_codecs\nencode\nK\x01K\x02\x86Rss."sv);
  EXPECT_THAT(error.context(), ElementsAre("'model.w'"));
}

TEST(Pickle, NumpyScalarsAreCarriedWhole) {
  Report report;
  OpenOptions options;
  options.report = &report;
  Value scalar = load(
      "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nX\x02\x00\x00\x00"
      "f8\x89\x88\x87R(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbB\x08\x00\x00\x00"
      "\0\0\0\0\0\0\xf0?\x86R."sv,
      options);
  ASSERT_TRUE(scalar.is(Value::Kind::object));
  EXPECT_EQ(scalar.as_object().symbol, "numpy.core.multiarray.scalar");
  EXPECT_TRUE(scalar.as_object().args.as_list()[0].as_object().has_state);
  EXPECT_THAT(report.warnings, ::testing::Contains(HasSubstr("weights_only")));
}

TEST(Pickle, TensorsOfPyTorch03AreRead) {
  Value value = load(
      "ctorch\nFloatTensor\n)\x81((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00"
      "0X\x03\x00\x00\x00"
      "cpuK\x06tQK\x00(K\x02K\x03t(K\x03K\x01ttb."sv);
  ASSERT_TRUE(value.is(Value::Kind::tensor));
  EXPECT_EQ(value.as_entry().shape, (core::Shape{2, 3}));
  EXPECT_EQ(value.as_entry().byte_size(), 24U);
}

}  // namespace
