#include "libcore/parallel/containers.h"
#include "libcore/ops/operators.h"

#include <gmock/gmock.h>

#include "libcore/parallel/scatter_gather.h"
#include "tests/libcore/parallel/parallel_support.h"

namespace {

using core::Device;
using core::Tensor;
using test::floats;
using test::message_of;
using test::place_of;
using testing::ElementsAre;

const std::vector<Device> kDevices = {Device("cuda:0"), Device("cuda:1")};

struct Containers : test::Devices<2> {};

Tensor rows(std::int64_t count) {
  return core::arange(count).to_float();
}

/// Scatters and gathers again.
template <class T>
T round_trip(const T& value) {
  return core::gather_values(core::scatter_values(value, kDevices), kDevices[0]);
}

/// Keyword arguments of a forward.
struct Options {
  Tensor mask;
  std::optional<std::vector<Tensor>> weights = {};
  double scale = 1;
  std::string name = {};
  auto tensor_parts() { return std::tie(mask, weights); }
};

TEST_F(Containers, AStructSaysWhichPartsHoldTensors) {
  auto shards = core::scatter_values(Options{rows(4), {{rows(4) * 2}}, 0.5, "x"}, kDevices);
  EXPECT_THAT(floats(shards[1].mask), ElementsAre(2, 3));
  EXPECT_EQ(place_of(shards[1].weights->front()), "cuda:1");
  EXPECT_EQ(shards[1].scale, 0.5);
  EXPECT_EQ(shards[1].name, "x");
  EXPECT_THAT(floats(core::gather_values(shards, kDevices[0]).weights->front()), ElementsAre(0, 2, 4, 6));
}

TEST_F(Containers, AnAbsentPartStaysAbsent) {
  auto shards = core::scatter_values(Options{rows(4)}, kDevices);
  EXPECT_FALSE(shards[1].weights.has_value());
  EXPECT_FALSE(core::gather_values(shards, kDevices[0]).weights.has_value());
}

TEST_F(Containers, NestedTuplesListsAndMaps) {
  using Nested = std::tuple<std::vector<std::pair<Tensor, int>>, std::map<std::string, std::array<Tensor, 2>>>;
  Nested value{{{rows(3), 7}}, {{"a", {rows(3) + 1, rows(3) + 2}}}};
  auto shards = core::scatter_values(value, kDevices);
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_THAT(floats(std::get<0>(shards[0])[0].first), ElementsAre(0, 1));
  EXPECT_EQ(std::get<0>(shards[1])[0].second, 7);
  EXPECT_THAT(floats(std::get<1>(shards[1]).at("a")[1]), ElementsAre(4));
  EXPECT_THAT(floats(std::get<1>(core::gather_values(shards, kDevices[1])).at("a")[0]), ElementsAre(1, 2, 3));
}

TEST_F(Containers, HashMapsAndVariants) {
  std::unordered_map<std::string, std::variant<int, Tensor>> value{{"n", 3}, {"x", rows(2)}};
  auto joined = round_trip(value);
  EXPECT_EQ(std::get<int>(joined.at("n")), 3);
  EXPECT_THAT(floats(std::get<Tensor>(joined.at("x"))), ElementsAre(0, 1));
}

TEST_F(Containers, WithoutTensorsEveryDeviceGetsACopy) {
  EXPECT_THAT(core::scatter_values(std::vector<int>{1, 2}, kDevices),
              ElementsAre(std::vector<int>{1, 2}, std::vector<int>{1, 2}));
  EXPECT_EQ(core::scatter_values(std::vector<Tensor>{}, kDevices).size(), 2U);
}

TEST_F(Containers, NoneStaysNone) {
  auto joined = round_trip(std::tuple<Tensor, Tensor>{rows(2), {}});
  EXPECT_FALSE(std::get<1>(joined).defined());
}

TEST_F(Containers, ResultsMustHaveTheSameForm) {
  Device home = kDevices[0];
  Tensor x = core::ones({1}).cuda(0);
  using Map = std::map<std::string, Tensor>;
  EXPECT_EQ(message_of([&] {
              core::gather_values(std::vector<Map>{{{"a", x}}, {{"a", x}, {"b", x}}}, home);
            }),
            "All dicts must have the same number of keys");
  EXPECT_EQ(message_of([&] { core::gather_values(std::vector<Map>{{{"a", x}}, {{"b", x}}}, home); }), "a");
  EXPECT_EQ(message_of([&] {
              core::gather_values(std::vector<std::vector<Tensor>>{{x}, {x, x}}, home);
            }),
            "All lists must have the same number of elements");
  EXPECT_EQ(message_of([&] {
              core::gather_values(std::vector<Tensor>{x, {}}, home);
            }),
            "some replicas returned a tensor and others None in the same place");
  EXPECT_EQ(message_of([&] {
              core::gather_values(std::vector<std::optional<Tensor>>{{}, x}, home);
            }),
            "some replicas returned a value and others None in the same place");
  EXPECT_EQ(message_of([&] {
              core::gather_values(std::vector<std::variant<int, Tensor>>{1, x}, home);
            }),
            "replicas returned values of different types in the same place");
  EXPECT_EQ(message_of([&] {
              core::gather_values(std::vector<int>{1, 2}, home);
            }),
            "replicas returned different values that are no tensors and cannot be gathered");
}

TEST_F(Containers, AllScalarsBecomeAVector) {
  test::Warnings warnings;
  Tensor joined = core::gather({core::tensor(1.5).cuda(0), core::tensor(2.5).cuda(1)}, Device("cpu"));
  EXPECT_THAT(floats(joined), ElementsAre(1.5, 2.5));
  EXPECT_THAT(warnings.texts, ElementsAre("Was asked to gather along dimension 0, but all input tensors were scalars; "
                                          "will instead unsqueeze and return a vector."));
}

TEST_F(Containers, GatherRefusesTensorsOfTheCpu) {
  EXPECT_EQ(message_of([] {
              core::gather({core::ones({2}), core::ones({2})}, kDevices[0]);
            }),
            "Gather function not implemented for CPU tensors");
}

TEST_F(Containers, ScatterAndGatherAlongAnotherDimension) {
  Tensor x = core::arange(6).to_float().view({2, 3}).requires_grad_();
  auto pieces = core::scatter(x, kDevices, 1);
  EXPECT_EQ(pieces[0].sizes(), (core::Shape{2, 2}));
  Tensor joined = core::gather(pieces, Device("cpu"), -1);
  EXPECT_THAT(floats(joined), ElementsAre(0, 1, 2, 3, 4, 5));
  (joined * joined).sum().backward();
  EXPECT_THAT(floats(x.grad()), ElementsAre(0, 2, 4, 6, 8, 10));
}

TEST_F(Containers, TheGradientOfOnePieceIsZeroElsewhere) {
  Tensor x = core::ones({4}, {.requires_grad = true});
  core::scatter(x, kDevices)[1].sum().backward();
  EXPECT_THAT(floats(x.grad()), ElementsAre(0, 0, 1, 1));
}

TEST_F(Containers, ScatterHasSecondDerivatives) {
  Tensor x = core::tensor({1.0, 2.0}).requires_grad_();
  auto pieces = core::scatter(x, kDevices);
  Tensor y = (core::gather({pieces[0] * pieces[0], pieces[1] * pieces[1] * pieces[1]}, kDevices[0])).sum();
  y.backward({}, true, true);
  Tensor first = x.grad();
  x.set_grad({});
  first.sum().backward();
  EXPECT_THAT(floats(x.grad()), ElementsAre(2, 12));
}

}  // namespace
