// Objects that are taken out of a pickle while it is read: that nothing else goes with them, however the pickle refers
// to what is younger than they are.

#include "libckpt/format/torch/pickle_fold.h"

#include <gtest/gtest.h>

#include "libckpt/format/dcp/objects.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/pickle_maker.h"

namespace {

using ckpt::NodeId;
using ckpt::NodeKind;
using ckpt::PickleGraph;
using ckpt::detail::DcpObjects;

constexpr const char* kModule = "torch.distributed.checkpoint.metadata";

std::string size_of(std::int32_t n) {
  return test::call(test::symbol("torch", "Size"), {test::numbers({n})});
}

/// A piece, with something that is done while it is built.
std::string chunk(std::int32_t offset, const std::string& meanwhile = "") {
  std::string state = test::pickled_dict({{test::text("offsets"), size_of(offset)}, {test::text("sizes"), size_of(2)}});
  return test::symbol(kModule, "ChunkStorageMetadata") + ")\x81" + meanwhile + state + "b";
}

std::string put(int number) {
  return {'q', static_cast<char>(number)};
}
std::string get(int number) {
  return {'h', static_cast<char>(number)};
}

struct Folded {
  DcpObjects objects;
  std::optional<PickleGraph> graph;

  explicit Folded(const std::string& object) {
    std::string whole = test::pickle(object);
    core::Bytes bytes = core::as_bytes(whole);
    graph = ckpt::read_pickle(core::ByteVector(bytes.begin(), bytes.end()), {}, objects);
  }
  std::vector<NodeId> members() const {
    std::span<const NodeId> ids = graph->children(graph->root());
    return {ids.begin(), ids.end()};
  }
  std::int64_t offset(NodeId id) const { return objects.chunk(*graph, id).offsets[0]; }
};

TEST(PickleFold, LeavesANumberOfEachObject) {
  Folded read(test::list({chunk(0), chunk(2), chunk(4)}));
  ASSERT_TRUE(read.graph);
  ASSERT_EQ(read.members().size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    NodeId id = read.members()[i];
    EXPECT_EQ(read.graph->kind(id), NodeKind::folded);
    EXPECT_EQ(read.offset(id), static_cast<std::int64_t>(2 * i));
    EXPECT_EQ(read.objects.chunk(*read.graph, id).sizes, (core::Shape{2}));
  }
  Folded more(test::list(std::vector<std::string>(100, chunk(7))));
  EXPECT_LT(more.graph->size(), read.graph->size() + 3 * 100);  // the list, and the class and number of each
}

TEST(PickleFold, WordsThatTheFirstObjectNamedAreThereForAll) {
  std::string first = test::symbol(kModule, "ChunkStorageMetadata") + put(0) + ")\x81}(" + test::text("offsets") +
                      put(1) + test::symbol("torch", "Size") + put(2) + test::tuple({test::numbers({3})}) + "R" +
                      test::text("sizes") + put(3) + size_of(2) + "ub";
  std::string second = get(0) + ")\x81}(" + get(1) + get(2) + test::tuple({test::numbers({5})}) + "R" + get(3) +
                       get(2) + test::tuple({test::numbers({6})}) + "Rub";
  Folded read(test::list({first, second}));
  ASSERT_TRUE(read.graph);
  EXPECT_EQ(read.offset(read.members()[0]), 3);
  EXPECT_EQ(read.offset(read.members()[1]), 5);
  EXPECT_EQ(read.graph->kind(read.members()[1]), NodeKind::folded);
}

TEST(PickleFold, APickleThatComesBackToAPartIsNotFolded) {
  std::string state = test::pickled_dict({{test::text("offsets"), size_of(1) + put(0)}, {test::text("sizes"), get(0)}});
  std::string object = test::symbol(kModule, "ChunkStorageMetadata") + ")\x81" + state + "b";
  EXPECT_TRUE(Folded(test::list({object})).graph) << "inside the object it may";
  EXPECT_FALSE(Folded(test::list({object, get(0)})).graph);
}

/// What is younger than the object and held by what is older must still be there.
TEST(PickleFold, AnObjectStaysWhereSomethingOlderHoldsAPartOfIt) {
  auto holds = [](const Folded& read, std::size_t members) {
    ASSERT_TRUE(read.graph);
    ASSERT_EQ(read.members().size(), members);
    for (NodeId id : read.members()) ASSERT_LT(id, read.graph->size());
    EXPECT_EQ(read.offset(read.members().back()), 9);
  };
  const std::string object = test::symbol(kModule, "ChunkStorageMetadata") + ")\x81" + put(1);
  const std::string state =
      test::pickled_dict({{test::text("offsets"), size_of(9)}, {test::text("sizes"), size_of(2)}}) + "b";
  // A member of the list around it, appended while it is built.
  holds(Folded("]" + put(0) + object + get(0) + test::list({}) + "a0" + state + "a"), 2);
  // The same by a dict, a set and a batch, whose members are not looked at here.
  for (const char* container : {"}", "\x8f"}) {
    std::string add = *container == '}' ? test::list({}) + test::list({}) + "s" : "(" + test::list({}) + "\x90";
    Folded read("](" + std::string(container) + put(0) + object + get(0) + add + "0" + state + "e");
    ASSERT_TRUE(read.graph);
    NodeId held = read.graph->children(read.members()[0])[0];
    ASSERT_LT(held, read.graph->size());
    EXPECT_EQ(read.graph->kind(held), NodeKind::list);
  }
  // Taken off the stack and put back over something younger.
  const std::string first = test::symbol(kModule, "ChunkStorageMetadata") + ")\x81" + put(0);
  holds(Folded("](" + first + "0" + test::list({}) + get(0) + state + "e"), 2);
  holds(Folded("](" + test::none() + first + "00" + test::list({}) + get(0) + state + "e"), 2);
  holds(Folded("](" + first + test::list({}) + get(0) + state + "e"), 3);
  // A number of the memo that was given before, and one that is far away.
  Folded low("](" + test::text("w") + put(0) + object + test::list({}) + put(0) + "0" + state + get(0) + "e");
  ASSERT_TRUE(low.graph);
  ASSERT_LT(low.members()[2], low.graph->size());
  EXPECT_EQ(low.graph->kind(low.members()[2]), NodeKind::list);
  Folded far("](" + first + test::list({}) + put(90) + "0" + state + get(90) + "e");
  ASSERT_TRUE(far.graph);
  ASSERT_LT(far.members()[1], far.graph->size());
  EXPECT_EQ(far.graph->kind(far.members()[1]), NodeKind::list);
}

TEST(PickleFold, NoArgumentsAreThoseOfNoFoldedObject) {
  std::string first = test::symbol(kModule, "ChunkStorageMetadata") + "(t\x81)0" +
                      test::pickled_dict({{test::text("offsets"), size_of(9)}, {test::text("sizes"), size_of(2)}}) +
                      "b";
  Folded read(test::list({first, chunk(9)}));
  ASSERT_TRUE(read.graph);
  EXPECT_EQ(read.graph->kind(read.members()[0]), NodeKind::folded);
  EXPECT_EQ(read.graph->kind(read.members()[1]), NodeKind::folded);
}

TEST(PickleFold, AnObjectWithMoreInItStays) {
  auto kind_of = [](const std::string& object) {
    Folded read(test::list({object}));
    return read.graph ? read.graph->kind(read.members()[0]) : NodeKind::none;
  };
  auto with = [](const std::string& type, const std::vector<std::pair<std::string, std::string>>& fields) {
    return test::instance(test::symbol(kModule, type), test::pickled_dict(fields));
  };
  const std::pair<std::string, std::string> name{test::text("fqn"), test::text("w")};
  EXPECT_EQ(kind_of(with("MetadataIndex", {name})), NodeKind::folded);
  EXPECT_EQ(kind_of(with("MetadataIndex", {name, {test::text("index"), test::number(1)}})), NodeKind::folded);
  std::string hidden = test::call(test::symbol("os", "system"), {test::text("true")});
  EXPECT_EQ(kind_of(with("MetadataIndex", {name, {test::text("index"), hidden}})), NodeKind::call);
  EXPECT_EQ(kind_of(with("MetadataIndex", {name, {test::text("more"), hidden}})), NodeKind::call);
  EXPECT_EQ(kind_of(with("MetadataIndex", {{test::text("fqn"), hidden}})), NodeKind::call);
  EXPECT_EQ(kind_of(with("ChunkStorageMetadata", {name})), NodeKind::call) << "without a box";
  EXPECT_EQ(kind_of(chunk(-1)), NodeKind::call);
  std::string old_words = with("MetadataIndex", {{test::text("fqn"), "V\\u0061\n"}});
  EXPECT_EQ(kind_of(old_words), NodeKind::call) << "its name is no part of the pickle as it stands";
}

TEST(PickleFold, AnotherClassThanIsNeededIsNamed) {
  Folded read(test::list({chunk(1)}));
  try {
    read.objects.place(*read.graph, read.members()[0]);
    FAIL() << "a piece is no place";
  } catch (const core::Error& error) {
    EXPECT_STREQ(error.what(), "the metadata has an object where a _StorageInfo is needed");
  }
}

}  // namespace
