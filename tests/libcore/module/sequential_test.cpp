#include "libcore/module/sequential.h"

#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "libcore/module/activation.h"
#include "libcore/module/linear.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"

namespace {

using core::Linear;
using core::ReLU;
using Names = std::vector<std::string>;

TEST(Sequential, NumbersItsModulesAndCallsThemInOrder) {
  core::Sequential net(Linear(2, 3), ReLU(), Linear(3, 1, {.bias = false}));
  EXPECT_EQ(net.keys(), (Names{"0", "1", "2"}));
  EXPECT_EQ(net(core::ones({4, 2})).sizes(), (core::Shape{4, 1}));
  EXPECT_EQ(net.state_dict().keys(), (Names{"0.weight", "0.bias", "2.weight"}));
}

TEST(Sequential, SliceSharesModulesAndKeepsNames) {
  core::Sequential net(Linear(2, 3), ReLU(), Linear(3, 1));
  core::Sequential tail = net.slice(1, 3);
  EXPECT_EQ(tail.keys(), (Names{"1", "2"}));
  EXPECT_EQ(&tail[1], &net[2]);
}

TEST(Sequential, HoldsAnotherSequential) {
  core::Sequential net;
  net.push_back(core::Sequential{ReLU(), ReLU()});
  EXPECT_EQ(net.str(), "Sequential(\n  (0): Sequential(\n    (0): ReLU()\n    (1): ReLU()\n  )\n)");
}

TEST(Sequential, TakesNames) {
  core::Sequential net({{"fc", Linear(1, 1)}, {"act", ReLU({.inplace = true})}});
  EXPECT_EQ(net.str(),
            "Sequential(\n  (fc): Linear(in_features=1, out_features=1, bias=True)\n  (act): ReLU(inplace=True)\n)");
}

TEST(Sequential, CopySharesItsModules) {
  core::Sequential net{Linear(1, 1), ReLU()};
  core::Sequential copy = net;
  EXPECT_EQ(&copy[0], &net[0]);
  EXPECT_EQ(copy.size(), 2);
}

TEST(ModuleList, PrintsEqualNeighboursOnce) {
  const core::ModuleList list{Linear(1, 1), Linear(1, 1), ReLU()};
  EXPECT_EQ(list.str(), "ModuleList(\n  (0-1): 2 x Linear(in_features=1, out_features=1, bias=True)\n  (2): ReLU()\n)");
}

TEST(ModuleDict, FindsByName) {
  const core::ModuleDict dict{{"a", ReLU()}};
  EXPECT_TRUE(dict.contains("a"));
  EXPECT_EQ(dict["a"].class_name(), "ReLU");
  EXPECT_THROW(dict["b"], core::Error);
}

}  // namespace
