// SummaryWriter::add_graph: which nodes there are, in which scopes, and what they read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "libcore/module/linear.h"
#include "libcore/module/module.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensorboard/summary_writer.h"
#include "tests/libcore/tensorboard/event_reader.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

namespace {

using core::Tensor;
using core::tensorboard::SummaryWriter;
using testing::ElementsAre;

struct Net : core::ModuleOf<Net> {
  core::Sequential layers = core::Sequential(core::Linear(3, 4), core::Linear(4, 2));
  void members(core::Members& m) override { m.child("layers", layers); }
  Tensor forward(const Tensor& x) { return core::relu(layers(x)) + 1; }
};

struct Node {
  std::string op;
  std::vector<std::string> inputs;
  std::vector<std::int64_t> sizes;  ///< of its first output
};

class Graph : public testing::Test {
 protected:
  /// The nodes of the last event, by name.
  std::map<std::string, Node> nodes() const {
    std::map<std::string, Node> found;
    const auto files = test::list_folder(dir_.path() / "run");
    const test::Message graph = test::read_events(dir_.path() / "run" / files.at(0)).back().at(4);
    for (std::size_t i = 0; i < graph.count(1); ++i) {
      const test::Message node = graph.at(1, i);
      Node& one = found[node.bytes(1)];
      one.op = node.bytes(2);
      for (std::size_t k = 0; k < node.count(3); ++k) one.inputs.push_back(node.at_text(3, k));
      const test::Message shape = node.at(5).at(2).at(1).at(7);
      for (std::size_t k = 0; k < shape.count(2); ++k) one.sizes.push_back(shape.at(2, k).integer(1));
    }
    return found;
  }
  test::TempDir dir_;
  SummaryWriter writer_{(dir_.path() / "run").string()};
};

TEST_F(Graph, NodesAreInTheScopesOfTheirModules) {
  Net net;
  writer_.add_graph(net, core::ones({5, 3}));
  writer_.flush();
  auto found = nodes();
  const std::string first = "Net/Sequential[layers]/Linear[0]/", second = "Net/Sequential[layers]/Linear[1]/";
  EXPECT_EQ(found["input/input"].op, "IO Node");
  EXPECT_THAT(found["input/input"].sizes, ElementsAre(5, 3));
  EXPECT_EQ(found[first + "linear"].op, "aten::linear");
  EXPECT_THAT(found[first + "linear"].inputs, ElementsAre("input/input", first + "weight", first + "bias"));
  EXPECT_THAT(found[second + "linear"].inputs, ElementsAre(first + "linear", second + "weight", second + "bias"));
  EXPECT_THAT(found["Net/relu"].inputs, ElementsAre(second + "linear"));
  EXPECT_THAT(found["Net/add"].inputs, ElementsAre("Net/relu"));
  EXPECT_THAT(found["Net/add"].sizes, ElementsAre(5, 2));
  EXPECT_THAT(found["output/output.1"].inputs, ElementsAre("Net/add"));
  EXPECT_EQ(found.size(), 10U);
}

TEST_F(Graph, TakesSeveralInputsThroughAFunction) {
  Net net;
  writer_.add_graph(net, {{"a", core::ones({1, 3})}, {"b", core::ones({1, 2})}},
                    [&](core::Module&, const std::vector<Tensor>& in) {
                      return std::vector<Tensor>{net(in[0]) * in[1], in[1]};
                    });
  writer_.flush();
  auto found = nodes();
  EXPECT_THAT(found["Net/mul"].inputs, ElementsAre("Net/add", "input/b"));
  EXPECT_THAT(found["output/output.2"].inputs, ElementsAre("input/b"));
}

TEST_F(Graph, LeavesNothingBehindWhenThePassFails) {
  Net net;
  EXPECT_THROW(writer_.add_graph(net, core::ones({5, 7})), core::Error);
  EXPECT_EQ(core::detail::tracing.load(), 0);
  EXPECT_EQ(test::message_of([&] {
              writer_.add_graph(net, {{"a", core::ones({1})}, {"b", core::ones({1})}}, {});
            }),
            "a module with 2 inputs is called through a function: give one that says how");
  writer_.add_graph(net, core::ones({5, 3}));
  EXPECT_TRUE(net.is_training());
}

}  // namespace
