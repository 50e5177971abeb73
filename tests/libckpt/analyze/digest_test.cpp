#include "libckpt/analyze/digest.h"

#include <gtest/gtest.h>

#include "tests/libckpt/transform/trees.h"

using ckpt::Value;
using test::dict;
using test::tensor;

namespace {

std::string digest_of(const Value& root) {
  return to_hex(ckpt::digest(root).model);
}

}  // namespace

TEST(Digest, IsBuiltAsTheHeaderSays) {
  core::ByteVector leaf;
  core::append(leaf, core::as_bytes("ckpt digest 1 tensor\nfloat32"));
  leaf.push_back(std::byte{0});
  core::append_le<std::uint64_t>(leaf, 1);
  core::append_le<std::uint64_t>(leaf, 2);
  leaf.push_back(std::byte{1});
  auto append = [](core::ByteVector& to, ckpt::Hash128 hash) {
    for (std::uint64_t half : {hash.high, hash.low}) {
      for (int shift = 56; shift >= 0; shift -= 8) to.push_back(static_cast<std::byte>(half >> shift));
    }
  };
  std::vector<float> values = {1, 2};
  append(leaf, ckpt::hash128(core::Bytes(std::as_bytes(std::span(values)))));
  core::ByteVector branch;
  core::append(branch, core::as_bytes("ckpt digest 1 branch\n"));
  core::append_le<std::uint64_t>(branch, 1);
  core::append(branch, core::as_bytes("w"));
  branch.push_back(std::byte{0});
  append(branch, ckpt::hash128(core::Bytes(leaf)));
  EXPECT_EQ(digest_of(dict({{"w", tensor({1, 2})}})), to_hex(ckpt::hash128(core::Bytes(branch))));
}

TEST(Digest, StaysTheSame) {
  EXPECT_EQ(digest_of(dict({{"a.w", tensor({1, 2})}, {"a.b", tensor({3})}, {"c", tensor({})}})),
            "1aff71a54ce148e0655b89dbdf3274b0");
}

TEST(Digest, OrderNestingAndPlainValuesDoNotCount) {
  Value flat = dict({{"a.w", tensor({1})}, {"a.b", tensor({2})}});
  Value nested = dict({{"epoch", Value::integer(3)}, {"a", dict({{"b", tensor({2}, "cuda:0")}, {"w", tensor({1})}})}});
  EXPECT_EQ(digest_of(flat), digest_of(nested));
}

TEST(Digest, NamesDtypesShapesAndValuesCount) {
  std::string plain = digest_of(dict({{"w", tensor({1, 2})}}));
  EXPECT_NE(plain, digest_of(dict({{"v", tensor({1, 2})}})));
  EXPECT_NE(plain, digest_of(dict({{"w", tensor({1, 3})}})));
  ckpt::Entry column = test::float_entry({1, 2});
  column.shape = {2, 1};
  EXPECT_NE(plain, digest_of(dict({{"w", Value::tensor(std::make_shared<ckpt::Entry>(column))}})));
  ckpt::Entry integer = test::float_entry({1, 2});
  integer.dtype = core::DType::i32;
  EXPECT_NE(plain, digest_of(dict({{"w", Value::tensor(std::make_shared<ckpt::Entry>(integer))}})));
}

TEST(Digest, TiesAndLazyFlagsDoNotCount) {
  Value shared = tensor({1, 2});
  EXPECT_EQ(digest_of(dict({{"a", shared}, {"b", shared}})),
            digest_of(dict({{"a", tensor({1, 2})}, {"b", tensor({1, 2})}})));
  ckpt::Entry negated = test::float_entry({-1, -2});
  negated.negative = true;
  EXPECT_EQ(digest_of(dict({{"a", Value::tensor(std::make_shared<ckpt::Entry>(negated))}})),
            digest_of(dict({{"a", tensor({1, 2})}})));
}

TEST(Digest, BranchesDoNotKnowTheirName) {
  ckpt::DigestResult a = ckpt::digest(dict({{"enc.w", tensor({1})}, {"head", tensor({2})}}), {.depth = 3});
  ckpt::DigestResult b = ckpt::digest(dict({{"m.x.w", tensor({1})}}), {.depth = 3});
  ASSERT_EQ(a.branches.size(), 1u);
  ASSERT_EQ(b.branches.size(), 2u);
  EXPECT_EQ(b.branches[1].name, "m.x");
  EXPECT_EQ(a.branches[0].digest, b.branches[1].digest);
  EXPECT_EQ(a.branches[0].bytes, 4u);
}

TEST(Digest, ATensorMayHaveTheNameOfABranch) {
  ckpt::DigestResult one = ckpt::digest(dict({{"a", tensor({1})}, {"a.b", tensor({2})}}), {.depth = 1});
  EXPECT_EQ(one.branches.size(), 1u);
  EXPECT_NE(to_hex(one.model), digest_of(dict({{"a.b", tensor({2})}})));
}

TEST(Digest, DoesNotDependOnTheNumberOfThreads) {
  Value root = test::state_dict({"a.b", "a.c", "d", "e.f.g"});
  EXPECT_EQ(ckpt::digest(root, {.threads = 1}).model, ckpt::digest(root, {.threads = 4}).model);
}
