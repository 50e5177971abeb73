// Captures on opaque devices: they spread to streams that wait for them, and what a GPU's driver would refuse is
// refused with its text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "libcore/backend/cuda_graph.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"

namespace {

using core::Device;
using core::DType;
using core::Tensor;
using core::cuda::Event;
using core::cuda::Graph;
using core::cuda::Stream;
using core::cuda::StreamGuard;
using test::message_of;
using testing::StartsWith;

const Device kGpu("cuda:0");
constexpr const char* kForbidden =
    "CUDA error: operation not permitted when stream is capturing\nSearch for "
    "`cudaErrorStreamCaptureUnsupported' in https://docs.nvidia.com/";
constexpr const char* kIsLost = "CUDA error: operation failed due to a previous error during capture\n";
constexpr const char* kIsCaptured =
    "CUDA error: operation not permitted on an event last recorded in a capturing stream\nSearch for "
    "`cudaErrorCapturedEvent'";

struct OpaqueCaptures : testing::Test {
  OpaqueCaptures() { core::set_opaque_devices(2); }
  ~OpaqueCaptures() override { core::set_logical_devices(0); }
  /// What the capture of `work` says, which leaves nothing behind.
  static std::string refusal(const std::function<void()>& work) {
    Graph graph(kGpu);
    const std::string text = message_of([&] { graph.capture(work); });
    EXPECT_FALSE(graph.is_captured());
    EXPECT_FALSE(core::cuda::is_current_stream_capturing());
    EXPECT_NO_THROW(core::cuda::synchronize(kGpu));
    EXPECT_NO_THROW(graph.capture([] {}));
    return text;
  }
  /// What `what` says inside of a capture that goes on regardless, and what the end of the capture says.
  static std::pair<std::string, std::string> inside(const std::function<void()>& what) {
    std::string said;
    const std::string at_end = refusal([&] { said = message_of(what); });
    return {said, at_end};
  }
};

/// Runs `work` on a thread of its own, to its end.
void elsewhere(const std::function<void()>& work) {
  std::thread(work).join();
}

TEST_F(OpaqueCaptures, SpreadToStreamsThatWaitForThem) {
  const Tensor x = core::ones({2}, {.device = kGpu});
  Stream side(kGpu);
  Graph graph(kGpu);
  graph.capture([&] {
    const Stream first = core::cuda::current_stream(kGpu);
    x.add_(2);
    side.wait_stream(first);
    {
      const StreamGuard guard(side);
      EXPECT_TRUE(core::cuda::is_current_stream_capturing());
      x.mul_(10);
    }
    first.wait_event(side.record_event());
  });
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 1}));
  graph.replay();
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{30, 30}));
  graph.replay();
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{320, 320}));
  const StreamGuard guard(side);
  EXPECT_FALSE(core::cuda::is_current_stream_capturing());
}

TEST_F(OpaqueCaptures, KeepTheMemoryOfStreamsThatTheySpreadTo) {
  const Tensor in = core::ones({100}, {.device = kGpu});
  Stream side(kGpu);
  Tensor out;
  Graph graph(kGpu);
  graph.capture([&] {
    const Stream first = core::cuda::current_stream(kGpu);
    side.wait_stream(first);
    {
      const StreamGuard guard(side);
      out = (in + 1) * 3;
    }
    first.wait_stream(side);
  });
  std::vector<Tensor> others;
  for (int i = 0; i < 20; ++i) others.push_back(core::zeros({100}, {.device = kGpu}));
  graph.replay();
  EXPECT_EQ(out.sum().item<float>(), 600);
  for (const Tensor& other : others) EXPECT_EQ(other.sum().item<float>(), 0);
}

TEST_F(OpaqueCaptures, SayWorkThatDoesNotComeBack) {
  const Tensor x = core::ones({2}, {.device = kGpu});
  Stream side(kGpu), further(kGpu);
  EXPECT_THAT(
      refusal([&] {
        side.wait_stream(core::cuda::current_stream(kGpu));
        const StreamGuard guard(side);
        x.add_(2);
      }),
      StartsWith("CUDA error: capturing stream has unjoined work\nSearch for `cudaErrorStreamCaptureUnjoined'"));
  EXPECT_THAT(refusal([&] {  // what comes back by another stream does, but not what that one did since
                const Stream first = core::cuda::current_stream(kGpu);
                side.wait_stream(first);
                further.wait_stream(side);
                const Event before = further.record_event();
                {
                  const StreamGuard guard(further);
                  x.add_(2);
                }
                first.wait_event(before);
              }),
              StartsWith("CUDA error: capturing stream has unjoined work"));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST_F(OpaqueCaptures, TakeWhatComesBackByAnotherStream) {
  const Tensor x = core::ones({2}, {.device = kGpu});
  Stream side(kGpu), further(kGpu);
  Graph graph(kGpu);
  graph.capture([&] {
    const Stream first = core::cuda::current_stream(kGpu);
    side.wait_stream(first);
    Event early;
    {
      const StreamGuard guard(side);
      x.add_(2);
      early.record();
      x.add_(2);
    }
    further.wait_stream(side);
    first.wait_stream(further);
    first.wait_event(early);  // what it has come after already stays before it
  });
  graph.replay();
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{5, 5}));
}

TEST_F(OpaqueCaptures, WaitForNothingFromBefore) {
  Stream side(kGpu);
  const Event earlier = side.record_event();
  const auto [said, at_end] = inside([&] { earlier.wait(core::cuda::current_stream(kGpu)); });
  EXPECT_THAT(said, StartsWith("CUDA error: dependency created on uncaptured work in another stream\nSearch for "
                               "`cudaErrorStreamCaptureIsolation'"));
  EXPECT_THAT(at_end, StartsWith(kIsLost));
  EXPECT_THAT(refusal([&] { core::cuda::current_stream(kGpu).wait_stream(side); }),
              StartsWith("CUDA error: dependency created on uncaptured work in another stream"));
  Graph graph(kGpu);
  EXPECT_NO_THROW(graph.capture([] { Event().wait(core::cuda::current_stream(kGpu)); }));  // never recorded
}

TEST_F(OpaqueCaptures, AreNotAskedHowFarTheyAre) {
  const Tensor x = core::ones({2}, {.device = kGpu});
  const auto stream = inside([] { core::cuda::current_stream(kGpu).query(); });
  EXPECT_THAT(stream.first, StartsWith(kForbidden));
  EXPECT_THAT(stream.second, StartsWith(kIsLost));
  EXPECT_THAT(inside([] { core::cuda::current_stream(kGpu).synchronize(); }).first, StartsWith(kForbidden));
  EXPECT_THAT(inside([] { core::cuda::current_stream(kGpu).record_event().query(); }).first, StartsWith(kIsCaptured));
  const auto event = inside([] { core::cuda::current_stream(kGpu).record_event().synchronize(); });
  EXPECT_THAT(event.first, StartsWith(kIsCaptured));
  EXPECT_THAT(event.second, StartsWith(kIsLost));
  EXPECT_THAT(inside([&] {
                message_of([] { core::cuda::current_stream(kGpu).query(); });
                x.add_(1);
              }).first,
              StartsWith(kIsLost));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 1}));
}

// Of their thread; to ask how far another stream is waits for nothing.
TEST_F(OpaqueCaptures, AreLostToAWaitForAnythingElse) {
  const Tensor x = core::ones({2}, {.device = kGpu});
  Stream side(kGpu);
  const Event earlier = side.record_event();
  for (const auto& wait :
       std::vector<std::function<void()>>{[&] { side.synchronize(); }, [&] { earlier.synchronize(); },
                                          [&] {
                                            const StreamGuard guard(side);
                                            x.to_vector<float>();
                                          }}) {
    const auto [said, at_end] = inside(wait);
    EXPECT_THAT(said, StartsWith(kForbidden));
    EXPECT_THAT(at_end, StartsWith(kIsLost));
  }
  Graph graph(kGpu);
  graph.capture([&] {
    EXPECT_TRUE(side.query());
    EXPECT_TRUE(earlier.query());
    elsewhere([&] {
      const StreamGuard guard(side);
      EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 1}));
      side.synchronize();
      earlier.synchronize();
      EXPECT_THAT(message_of([] { core::cuda::synchronize(kGpu); }), StartsWith(kForbidden));
      EXPECT_NO_THROW(core::cuda::synchronize(Device("cuda:1")));
    });
  });
  EXPECT_TRUE(graph.is_captured());
}

TEST_F(OpaqueCaptures, LeaveTheirEventsToThemselves) {
  Stream side(kGpu);
  Event event;
  Graph graph(kGpu);
  graph.capture([&] { event.record(core::cuda::current_stream(kGpu)); });
  EXPECT_THAT(message_of([&] { side.wait_event(event); }), StartsWith(kIsCaptured));
  EXPECT_THAT(message_of([&] { event.query(); }), StartsWith(kIsCaptured));
  event.record(side);
  EXPECT_TRUE(event.query());
}

TEST_F(OpaqueCaptures, DoNotTakeInOtherDevicesOrTheDefaultStream) {
  EXPECT_THAT(refusal([] { Stream(Device("cuda:1")).wait_stream(core::cuda::current_stream(kGpu)); }),
              StartsWith("cuda:1: a stream of another device than cuda:0, where a graph is being captured, cannot "
                         "become a part of that graph"));
  EXPECT_THAT(refusal([] { core::cuda::default_stream(kGpu).wait_stream(core::cuda::current_stream(kGpu)); }),
              StartsWith(kForbidden));
}

TEST_F(OpaqueCaptures, DoNotMerge) {
  Graph first(kGpu), second("cuda:1");
  std::string said, of_second;
  const std::string of_first = message_of([&] {
    first.capture([&] {
      const Stream here = core::cuda::current_stream(kGpu);
      of_second = message_of([&] {
        second.capture(
            [&] { said = message_of([&] { core::cuda::current_stream(Device("cuda:1")).wait_stream(here); }); });
      });
    });
  });
  EXPECT_THAT(said,
              StartsWith("CUDA error: operation would result in a merge of separate capture sequences\nSearch for "
                         "`cudaErrorStreamCaptureMerge'"));
  EXPECT_THAT(of_first, StartsWith(kIsLost));
  EXPECT_THAT(of_second, StartsWith(kIsLost));
}

}  // namespace
