// The tree that `ckpt view` shows, without a screen; view_test.py has the screen.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/files.h"
#include "tools/ckpt/view/tensor_tree.h"

using testing::ElementsAre;
using namespace test;

namespace {

ckpt::NamedEntry named(const std::string& name, std::size_t count, float value = 1) {
  return {{}, name, std::make_shared<const ckpt::Entry>(float_entry(std::vector<float>(count, value)))};
}

std::vector<std::string> shown(const cli::TensorTree& tree) {
  std::vector<std::string> out;
  for (std::uint32_t row : tree.rows()) out.push_back(tree.full_name(row));
  return out;
}

cli::TensorTree layers() {
  return cli::TensorTree(
      cli::alone({named("net.l10.w", 8), named("net.l2.w", 4), named("net.l2.b", 2), named("head", 1)}));
}

}  // namespace

TEST(TensorTree, OpensAndFolds) {
  cli::TensorTree tree = layers();
  EXPECT_THAT(shown(tree), ElementsAre("net", "head"));
  tree.open(tree.rows()[0]);
  EXPECT_THAT(shown(tree), ElementsAre("net", "net.l10", "net.l2", "head"));
  EXPECT_EQ(tree.node(tree.rows()[0]).tensors, 3U);
  EXPECT_EQ(tree.node(tree.rows()[0]).bytes, 56U);
  tree.open_all();
  EXPECT_EQ(tree.rows().size(), 7U);
  tree.fold(tree.rows()[0]);
  EXPECT_THAT(shown(tree), ElementsAre("net", "head"));
}

TEST(TensorTree, OpensWhatHasOnlyOneChild) {
  const cli::TensorTree tree(cli::alone({named("model.module.a.w", 1), named("model.module.b.w", 1)}));
  EXPECT_THAT(shown(tree), ElementsAre("model", "model.module", "model.module.a", "model.module.b"));
}

TEST(TensorTree, SortsSiblings) {
  cli::TensorTree tree = layers();
  tree.open(tree.rows()[0]);
  tree.sort(cli::ViewOrder::name);
  EXPECT_THAT(shown(tree), ElementsAre("head", "net", "net.l2", "net.l10"));
  tree.sort(cli::ViewOrder::size);
  EXPECT_THAT(shown(tree), ElementsAre("net", "net.l10", "net.l2", "head"));
  tree.tensor(3).norm = 5;
  tree.tensor(1).norm = 1;
  tree.note_changes();
  tree.sort(cli::ViewOrder::norm);
  EXPECT_THAT(shown(tree), ElementsAre("head", "net", "net.l2", "net.l10"));
  tree.sort(cli::ViewOrder::file);
  EXPECT_THAT(shown(tree), ElementsAre("net", "net.l10", "net.l2", "head"));
}

TEST(TensorTree, FindsFoldedNamesAndGoesRound) {
  cli::TensorTree tree = layers();
  auto found = tree.find("L2", tree.rows()[0]);
  ASSERT_TRUE(found);
  EXPECT_EQ(tree.full_name(*found), "net.l2");
  EXPECT_THAT(shown(tree), ElementsAre("net", "net.l10", "net.l2", "head"));
  EXPECT_EQ(tree.row_of(*found), 2U);
  EXPECT_EQ(tree.find("l2", *found), found);  // what lies below is no find of its own
  EXPECT_EQ(tree.full_name(*tree.find(".w", *found)), "net.l2.w");
  EXPECT_EQ(tree.full_name(*tree.find(".w", *found, true)), "net.l10.w");
  EXPECT_FALSE(tree.find("x", 1));
}

TEST(TensorTree, NamesTensorsThatAreModulesToo) {
  cli::TensorTree tree(cli::alone({named("a", 1), named("a.b", 2), named("", 4), named("c..d", 1)}));
  tree.open_all();
  EXPECT_THAT(shown(tree), ElementsAre("a", "a.b", "", "c", "c.", "c..d"));
  EXPECT_EQ(tree.node(tree.rows()[0]).tensors, 2U);
  std::string deep = "x";
  for (int i = 0; i < 20'000; ++i) deep += ".x";
  cli::TensorTree long_name(cli::alone({named(deep, 1)}));
  long_name.open_all();
  EXPECT_LE(long_name.rows().size(), 64U);
  EXPECT_EQ(long_name.full_name(long_name.rows().back()), deep);
}

TEST(TensorTree, PutsTwoFilesBesideEachOther) {
  ckpt::NamedEntry other = named("net.l2.w", 5);
  cli::TensorTree tree(cli::beside({named("net.l2.w", 4), named("net.same", 2), named("gone", 1)},
                                   {other, named("new", 1), named("net.same", 2)}));
  EXPECT_EQ(tree.tensors()[0].sameness, cli::Sameness::other_form);
  EXPECT_EQ(tree.tensors()[1].sameness, cli::Sameness::unknown);
  EXPECT_EQ(tree.tensors()[2].sameness, cli::Sameness::only_first);
  EXPECT_EQ(tree.tensors()[3].sameness, cli::Sameness::only_second);
  tree.show_differences(true);
  tree.open_all();
  EXPECT_THAT(shown(tree), ElementsAre("net", "net.l2", "net.l2.w", "gone", "new"));
  tree.tensor(1).sameness = cli::Sameness::other_values;
  tree.note_changes();
  EXPECT_THAT(shown(tree), testing::Contains("net.same"));
}
