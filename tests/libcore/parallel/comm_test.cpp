#include "libcore/parallel/comm.h"

#include <gmock/gmock.h>

#include "libcore/backend/device_registry.h"
#include "tests/libcore/parallel/parallel_support.h"

namespace {

using core::Device;
using core::Shape;
using core::Tensor;
using test::floats;
using test::message_of;
using test::place_of;
using testing::ElementsAre;
namespace comm = core::comm;

struct Comm : test::Devices<3> {};

Tensor on(int device, std::vector<float> values) {
  return core::from_values(values).to(Device(core::DeviceType::cuda, device));
}

TEST_F(Comm, BroadcastPutsTheTensorOnEveryDevice) {
  Tensor x = on(1, {1, 2});
  auto copies = comm::broadcast(x, {0, "cuda:1", Device("cuda:2")});
  EXPECT_EQ(place_of(copies[0]), "cuda:0");
  EXPECT_TRUE(copies[1].is_same(x));
  EXPECT_THAT(floats(copies[2]), ElementsAre(1, 2));
}

TEST_F(Comm, BroadcastTakesATensorFromTheCpu) {
  EXPECT_EQ(place_of(comm::broadcast(core::ones({2}), {2})[0]), "cuda:2");
}

TEST_F(Comm, BroadcastHasNoHistory) {
  Tensor x = core::ones({2}, {.device = "cuda:0", .requires_grad = true});
  EXPECT_FALSE(comm::broadcast(x, {1})[0].requires_grad());
}

TEST_F(Comm, BroadcastRefusesTheCpuAndMissingDevices) {
  EXPECT_EQ(message_of([] { comm::broadcast(core::ones({2}), {"cpu"}); }), "Expected a non cpu device, but got: cpu");
  EXPECT_EQ(message_of([] { comm::broadcast(core::ones({2}), {3}); }),
            "Invalid device id: cuda:3 is not available: 3 CUDA devices visible (cuda:0, cuda:1, cuda:2)");
}

TEST_F(Comm, CoalescedBroadcastKeepsShapesDtypesAndTheOriginals) {
  std::vector<Tensor> tensors = {on(0, {1, 2, 3, 4}).view({2, 2}), core::tensor({7, 8}).to(Device("cuda:0")),
                                 on(0, {5})};
  auto copies = comm::broadcast_coalesced(tensors, {0, 2});
  EXPECT_TRUE(copies[0][1].is_same(tensors[1]));
  EXPECT_EQ(copies[1][0].sizes(), (Shape{2, 2}));
  EXPECT_THAT(floats(copies[1][0]), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(copies[1][1].dtype(), core::DType::i64);
  EXPECT_THAT(copies[1][1].to_vector<int>(), ElementsAre(7, 8));
  EXPECT_THAT(floats(copies[1][2]), ElementsAre(5));
}

TEST_F(Comm, CoalescedTensorsShareABufferButNotAVersion) {
  auto copies = comm::broadcast_coalesced({on(0, {1}), on(0, {2})}, {0, 1});
  EXPECT_EQ(copies[1][0].storage().id(), copies[1][1].storage().id());
  copies[1][0].fill_(3);
  EXPECT_EQ(copies[1][1].version(), 0U);
}

TEST_F(Comm, ASmallBufferSizeMakesSeveralBuffers) {
  auto copies = comm::broadcast_coalesced({on(0, {1}), on(0, {2})}, {0, 1}, 4);
  EXPECT_NE(copies[1][0].storage().id(), copies[1][1].storage().id());
  EXPECT_THAT(floats(copies[1][1]), ElementsAre(2));
}

// Kernels that read several elements at once want them where an allocation would put them.
TEST_F(Comm, CoalescedTensorsStartAtMultiplesOf256Bytes) {
  const std::vector<Tensor> tensors{on(0, {1, 2, 3}), on(0, {4}), on(0, {5, 6})};
  const auto copies = comm::broadcast_coalesced(tensors, {0, 1});
  const auto* first = static_cast<const std::byte*>(copies[1][0].raw_data());
  EXPECT_EQ(static_cast<const std::byte*>(copies[1][1].raw_data()) - first, 256);
  EXPECT_EQ(static_cast<const std::byte*>(copies[1][2].raw_data()) - first, 512);
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(copies[1][i].cpu().equal(tensors[i].cpu()));
}

TEST_F(Comm, CoalescedBroadcastWantsItsTensorsOnTheFirstDevice) {
  EXPECT_EQ(message_of([] {
              comm::broadcast_coalesced({on(1, {1})}, {0, 1});
            }),
            "All tensors must be on devices[0]: 0");
}

TEST_F(Comm, ReduceAddSumsOnTheDestination) {
  Tensor sum = comm::reduce_add({on(0, {1, 2}), on(1, {10, 20}), on(2, {100, 200})}, 1);
  EXPECT_EQ(place_of(sum), "cuda:1");
  EXPECT_THAT(floats(sum), ElementsAre(111, 222));
}

TEST_F(Comm, ReduceAddLeavesItsInputsAlone) {
  Tensor a = on(0, {1}), b = on(1, {2}), c = on(2, {4});
  comm::reduce_add({a, b, c});
  EXPECT_THAT(floats(a), ElementsAre(1));
  EXPECT_THAT(floats(b), ElementsAre(2));
}

TEST_F(Comm, ReduceAddUsesTheCurrentDeviceByDefault) {
  core::cuda::DeviceGuard current(Device("cuda:2"));
  EXPECT_EQ(place_of(comm::reduce_add({on(0, {1}), on(2, {2})})), "cuda:2");
}

TEST_F(Comm, ReduceAddOfOneTensorIsThatTensor) {
  Tensor a = on(0, {1});
  EXPECT_TRUE(comm::reduce_add({a}, 0).is_same(a));
}

TEST_F(Comm, ReduceAddSaysWhatDoesNotFit) {
  EXPECT_EQ(message_of([] {
              comm::reduce_add({core::ones({1}), on(0, {1})}, 0);
            }),
            "reduce_add expects all inputs to be on GPUs, but input 0 is on CPU");
  EXPECT_EQ(message_of([] {
              comm::reduce_add({on(0, {1, 2}).view({2, 1}), on(1, {1, 2}).view({1, 2})}, 0);
            }),
            "input 1 has invalid size: got 1x2, but expected 2x1");
  EXPECT_EQ(message_of([] {
              comm::reduce_add({on(0, {1}), on(1, {1})}, 2);
            }),
            "reduce_add expects destination to be on the same GPU with one of the tensors");
}

TEST_F(Comm, SumsAreTheSameWithoutPeerAccess) {
  std::vector<float> with = floats(comm::reduce_add({on(0, {0.1F}), on(1, {0.2F}), on(2, {0.3F})}, 0));
  core::set_logical_devices({{.peer_access = false}, {.peer_access = false}, {.peer_access = false}});
  EXPECT_FALSE(core::cuda::can_device_access_peer(0, 1));
  EXPECT_EQ(floats(comm::reduce_add({on(0, {0.1F}), on(1, {0.2F}), on(2, {0.3F})}, 0)), with);
}

TEST_F(Comm, CoalescedReductionSumsEachTensor) {
  auto sums =
      comm::reduce_add_coalesced({{on(0, {1, 2}).view({2, 1}), core::tensor({5}).to(Device("cuda:0")), on(0, {3})},
                                  {on(1, {10, 20}).view({2, 1}), core::tensor({6}).to(Device("cuda:1")), on(1, {30})}},
                                 0);
  EXPECT_EQ(sums[0].sizes(), (Shape{2, 1}));
  EXPECT_THAT(floats(sums[0]), ElementsAre(11, 22));
  EXPECT_THAT(sums[1].cpu().to_vector<int>(), ElementsAre(11));
  EXPECT_THAT(floats(sums[2]), ElementsAre(33));
}

TEST_F(Comm, ScatterMakesChunksOrPiecesOfGivenSizes) {
  Tensor x = core::arange(5).to_float();
  auto chunks = comm::scatter(x, {0, 1});
  EXPECT_THAT(floats(chunks[0]), ElementsAre(0, 1, 2));
  EXPECT_EQ(place_of(chunks[1]), "cuda:1");
  auto pieces = comm::scatter(x, {0, 1}, Shape{1, 4});
  EXPECT_THAT(floats(pieces[1]), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(comm::scatter(core::ones({2, 5}), {0, 1, 2}, std::nullopt, -1)[2].sizes(), (Shape{2, 1}));
}

TEST_F(Comm, ScatterSaysWhatDoesNotFit) {
  Tensor x = core::ones({10});
  EXPECT_EQ(message_of([&] { comm::scatter(x, {}); }), "Expected at least one device to scatter to");
  EXPECT_EQ(message_of([&] {
              comm::scatter(x, {0, 1}, Shape{1, 2, 7});
            }),
            "Expected devices and chunk_sizes to be of same length, but got len(devices) = 2 and len(chunk_sizes) = 3");
  EXPECT_EQ(message_of([&] {
              comm::scatter(x, {0, 1}, Shape{3, 3});
            }),
            "split_with_sizes expects split_sizes to sum exactly to 10 (input tensor's size at dimension 0), but got "
            "split_sizes=[3, 3]");
}

TEST_F(Comm, GatherJoinsAlongADimensionOnADevice) {
  Tensor joined = comm::gather({core::ones({2, 1}).cuda(0), core::zeros({2, 2}).cuda(1)}, 1, 2);
  EXPECT_EQ(place_of(joined), "cuda:2");
  EXPECT_THAT(floats(joined), ElementsAre(1, 0, 0, 1, 0, 0));
  EXPECT_EQ(place_of(comm::gather({core::ones({1}).cuda(1)}, 0, "cpu")), "cpu");
  EXPECT_EQ(place_of(comm::gather({core::ones({1}).cuda(1)})), "cuda:0");
}

TEST_F(Comm, MinusOneIsTheCpuWithAWarning) {
  test::Warnings warnings;
  EXPECT_EQ(place_of(comm::gather({core::ones({1}).cuda(1)}, 0, -1)), "cpu");
  EXPECT_THAT(warnings.texts,
              ElementsAre("Using -1 to represent CPU tensor is deprecated. Please use a device object or string "
                          "instead, e.g., \"cpu\"."));
}

TEST_F(Comm, GatherSaysWhatDoesNotFit) {
  EXPECT_EQ(message_of([] { comm::gather({}); }), "Expected at least one tensor to gather from");
  EXPECT_EQ(message_of([] { comm::gather({core::ones({1})}); }),
            "Expected all input tensors to be CUDA tensors, but tensor at index 0 has device cpu");
  EXPECT_EQ(message_of([] {
              comm::gather({core::ones({1}).cuda(0), core::ones({1, 1}).cuda(1)});
            }),
            "Expected all input tensors to have the same number of dimensions, but tensor at index 1has 2 dimensions, "
            "(expected 1)");
  EXPECT_EQ(message_of([] {
              comm::gather({core::ones({1, 2}).cuda(0), core::ones({1, 3}).cuda(1)});
            }),
            "Tensor at index 1 has invalid shape [1, 3], but expected [1, 2]");
}

}  // namespace
