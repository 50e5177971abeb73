// Key lists as programs print them: the tables of ckpt itself, and state dicts printed by Python.

#include <gtest/gtest.h>

#include "libckpt/analyze/key_list.h"
#include "libcore/base/error.h"

namespace {

TEST(PrintedKeys, TheTableOfZooKeysIsRead) {
  ckpt::KeyList list = ckpt::parse_key_list(
      "NAME                    SHAPE         DTYPE    KIND\n"
      "conv.weight             [4, 3, 3, 3]  float32  parameter\n"
      "bn.num_batches_tracked  []            int64    buffer\n"
      "head.weight             [7]           float32  parameter\n"
      "tied: conv.weight, head.weight\nversion 2: bn\n3 tensors, 119 parameters, as in torch 2.15\n",
      "keys");
  ASSERT_EQ(list.keys.size(), 3U);
  EXPECT_EQ(list.keys[0].shape, (core::Shape{4, 3, 3, 3}));
  EXPECT_EQ(list.keys[1].shape, core::Shape{});
  EXPECT_EQ(list.keys[1].dtype, core::DType::i64);
  EXPECT_EQ(list.keys[1].kind, ckpt::WantedKey::Kind::buffer);
  ASSERT_EQ(list.ties.size(), 1U);
  EXPECT_EQ(list.ties[0], (std::vector<std::string>{"conv.weight", "head.weight"}));
}

TEST(PrintedKeys, TheTableOfLsIsRead) {
  ckpt::KeyList list = ckpt::parse_key_list(
      "NAME     DTYPE    SHAPE   LOCATION   SIZE\n"
      "a.b c    float16  [2, 3]  cpu        12 B\n"
      "b        int64    []      cuda:0      8 B\n"
      "2 tensors, 7 elements, 20 B in a PyTorch zip checkpoint\n",
      "keys");
  ASSERT_EQ(list.keys.size(), 2U);
  EXPECT_EQ(list.keys[0].key, "a.b c");
  EXPECT_EQ(list.keys[0].shape, (core::Shape{2, 3}));
  EXPECT_EQ(list.keys[0].dtype, core::DType::f16);
}

TEST(PrintedKeys, ShapesOfAPrintedStateDictAreRead) {
  for (const char* text :
       {"{'fc.weight': torch.Size([5, 4]), 'n': torch.Size([])}",
        "[('fc.weight', torch.Size([5, 4])), ('n', torch.Size([]))]", "OrderedDict([('fc.weight', (5, 4)), ('n', ())])",
        "('fc.weight', torch.Size([5, 4]))\n('n', torch.Size([]))", "{'fc.weight': (5, 4), 'n': ()}",
        "{'fc.weight': [5, 4], 'n': []}",
        "Model's state_dict:\nfc.weight \t torch.Size([5, 4])\nn \t torch.Size([])\n"}) {
    ckpt::KeyList list = ckpt::parse_key_list(text, "keys");
    ASSERT_EQ(list.keys.size(), 2U) << text;
    EXPECT_EQ(list.keys[0].key, "fc.weight") << text;
    EXPECT_EQ(list.keys[0].shape, (core::Shape{5, 4})) << text;
    EXPECT_EQ(list.keys[1].shape, core::Shape{}) << text;
  }
}

TEST(PrintedKeys, APrintedStateDictOfTensorsGivesItsNames) {
  ckpt::KeyList list =
      ckpt::parse_key_list("OrderedDict({'a': tensor([[1., 2.]], device='cuda:0'), 'b': tensor(3)})", "keys");
  ASSERT_EQ(list.keys.size(), 2U);
  EXPECT_EQ(list.keys[1].key, "b");
  EXPECT_FALSE(list.keys[0].shape);
}

}  // namespace
