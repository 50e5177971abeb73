// Workers that stay, streams over several workers, pinned batches, samples without batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "libcore/base/warning.h"
#include "libcore/data/concat.h"
#include "libcore/data/loader.h"
#include "libcore/tensor/random.h"
#include "tests/support/message_of.h"

namespace {

using core::DataLoader;
using core::Tensor;
using test::message_of;
using testing::ElementsAre;

struct Numbers {
  std::int64_t count;
  std::int64_t size() const { return count; }
  std::int64_t get(std::int64_t i) const { return i; }
};

/// 0 .. count-1; each worker takes its share.
struct Stream {
  std::int64_t count;
  core::SampleStream<std::int64_t> start() const {
    const auto info = core::worker_info();
    const std::int64_t step = info ? info->num_workers : 1;
    return [at = std::int64_t{info ? info->id : 0}, step, end = count]() mutable -> std::optional<std::int64_t> {
      if (at >= end) return std::nullopt;
      return std::exchange(at, at + step);
    };
  }
};

/// What torch.rand(1) gives in the worker that makes the sample.
struct Draws {
  std::int64_t size() const { return 4; }
  double get(std::int64_t) const { return core::rand({1}).item<double>(); }
};

template <class Loader>
std::vector<std::vector<std::int64_t>> batches_of(const Loader& loader) {
  std::vector<std::vector<std::int64_t>> batches;
  for (const Tensor& batch : loader) batches.push_back(batch.template to_vector<std::int64_t>());
  return batches;
}

template <class Loader>
std::vector<float> floats_of(const Loader& loader) {
  std::vector<float> values;
  for (const Tensor& batch : loader) values.push_back(batch.template item<float>());
  return values;
}

TEST(PersistentWorkers, GoOnWithTheirGenerators) {
  core::manual_seed(0);
  DataLoader loader(Draws{}, {.num_workers = 2, .persistent_workers = true});
  EXPECT_THAT(floats_of(loader), ElementsAre(0.7821399F, 0.69381785F, 0.053599F, 0.29795897F));
  EXPECT_THAT(floats_of(loader), ElementsAre(0.98878694F, 0.16685462F, 0.19485933F, 0.28471977F));
}

TEST(PersistentWorkers, DrawTheirSeedOnce) {
  core::manual_seed(0);
  DataLoader kept(Numbers{3}, {.num_workers = 2, .persistent_workers = true});
  batches_of(kept);
  EXPECT_FLOAT_EQ(core::rand({1}).item<float>(), 0.08847743F);
  batches_of(kept);
  EXPECT_FLOAT_EQ(core::rand({1}).item<float>(), 0.13203049F);
}

TEST(Workers, AreSeededAnewEachEpochUnlessTheyStay) {
  core::manual_seed(0);
  DataLoader loader(Draws{}, {.num_workers = 2});
  EXPECT_THAT(floats_of(loader), ElementsAre(0.7821399F, 0.69381785F, 0.053599F, 0.29795897F));
  EXPECT_THAT(floats_of(loader), ElementsAre(0.64280665F, 0.06311965F, 0.87669343F, 0.14800203F));
}

TEST(PersistentWorkers, DropAnEpochThatWasLeft) {
  DataLoader loader(Numbers{100}, {.batch_size = 10, .num_workers = 2, .persistent_workers = true});
  auto it = loader.begin();
  ++it;
  EXPECT_EQ(batches_of(loader).size(), 10U);
  EXPECT_EQ(batches_of(loader)[0], (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(PersistentWorkers, AreInitialisedOnce) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  DataLoader loader(Numbers{4},
                    {.num_workers = 2, .worker_init_fn = [calls](int) { ++*calls; }, .persistent_workers = true});
  batches_of(loader);
  batches_of(loader);
  EXPECT_EQ(calls->load(), 2);
}

TEST(PersistentWorkers, BelongToOneLoader) {
  DataLoader loader(Numbers{4}, {.num_workers = 1, .persistent_workers = true});
  auto it = loader.begin();
  const auto other = loader;  // a copy makes workers of its own
  EXPECT_EQ(batches_of(other).size(), 4U);
  EXPECT_EQ((*it).item<std::int64_t>(), 0);
  ++it;
  EXPECT_EQ((*it).item<std::int64_t>(), 1);
}

TEST(Workers, AnErrorOfTheInitFunctionArrives) {
  DataLoader loader(Numbers{1}, {.num_workers = 1, .worker_init_fn = [](int) {
                                   throw core::Error(core::ErrorCode::key, "no such file");
                                 }});
  EXPECT_EQ(message_of([&] { batches_of(loader); }),
            "Caught KeyError in DataLoader worker process 0.\nOriginal exception: no such file");
}

TEST(Workers, AnEpochGoesOnAfterABadSample) {
  struct Broken {
    std::int64_t size() const { return 3; }
    std::int64_t get(std::int64_t i) const {
      if (i == 1) throw core::Error(core::ErrorCode::value, "bad sample");
      return i;
    }
  };
  DataLoader loader(Broken{}, {.num_workers = 2});
  auto it = loader.begin();
  EXPECT_EQ(message_of([&] { ++it; }),
            "Caught ValueError in DataLoader worker process 1.\nOriginal exception: bad sample");
  ++it;
  EXPECT_EQ((*it).item<std::int64_t>(), 2);
}

TEST(IterableLoader, CutsAStreamIntoBatches) {
  EXPECT_THAT(batches_of(DataLoader(Stream{7}, {.batch_size = 2})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6)));
  EXPECT_EQ(batches_of(DataLoader(Stream{7}, {.batch_size = 2, .drop_last = true})).size(), 3U);
  EXPECT_TRUE(batches_of(DataLoader(Stream{0}, {.batch_size = 2})).empty());
}

TEST(IterableLoader, TakesTurnsAmongItsWorkers) {
  EXPECT_THAT(batches_of(DataLoader(Stream{7}, {.batch_size = 2, .num_workers = 2})),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5)));
  EXPECT_THAT(batches_of(DataLoader(Stream{7}, {.batch_size = 2, .num_workers = 3})),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5), ElementsAre(6)));
  EXPECT_THAT(batches_of(DataLoader(Stream{7}, {.batch_size = 2, .num_workers = 3, .drop_last = true})),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
}

TEST(IterableLoader, StartsAgainEachEpoch) {
  DataLoader loader(Stream{3}, {.num_workers = 2, .persistent_workers = true});
  EXPECT_THAT(batches_of(loader), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_THAT(batches_of(loader), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST(IterableLoader, HasNoOrderToChoose) {
  EXPECT_EQ(message_of([] { DataLoader(Stream{3}, {.shuffle = true}); }),
            "DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle=True");
  EXPECT_EQ(message_of([] { DataLoader(Stream{3}, {.sampler = std::make_shared<core::SequentialSampler>(3)}); }),
            "DataLoader with IterableDataset: expected unspecified sampler option, but got a sampler");
  EXPECT_EQ(message_of([] { DataLoader(Stream{3}, {.batch_size = 0}); }),
            "batch_size should be a positive integer value, but got batch_size=0");
}

TEST(ChainDataset, GivesOneStreamAfterTheOther) {
  core::ChainDataset chain(Stream{2}, Stream{0}, Stream{3});
  auto stream = chain.start();
  std::vector<std::int64_t> seen;
  while (auto sample = stream()) seen.push_back(*sample);
  EXPECT_THAT(seen, ElementsAre(0, 1, 0, 1, 2));
}

TEST(NoBatching, GivesSamplesAsTheyAre) {
  std::vector<std::int64_t> seen;
  for (std::int64_t sample : DataLoader(Numbers{3}, {.num_workers = 2}, core::NoBatching{})) seen.push_back(sample);
  for (std::int64_t sample : DataLoader(Stream{2}, {}, core::NoBatching{})) seen.push_back(sample);
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 0, 1));
}

/// Counts what goes through the pin function.
struct Pinning {
  std::shared_ptr<std::atomic<int>> count = std::make_shared<std::atomic<int>>(0);
  core::PinFunction before;
  Pinning() {
    before = core::set_pin_function([count = count](const Tensor& tensor) { return ++*count, tensor.clone(); });
  }
  ~Pinning() { core::set_pin_function(before); }
};

TEST(PinMemory, ReachesEveryTensorOfABatch) {
  const Pinning pinning;
  using Batch = std::tuple<Tensor, std::vector<std::pair<std::string, Tensor>>, std::map<int, Tensor>, int>;
  const Tensor x = core::ones({2});
  const Batch batch = core::pinned(Batch{x, {{"a", x}, {"b", x}}, {{1, x}}, 7});
  EXPECT_EQ(pinning.count->load(), 4);
  EXPECT_FALSE(std::get<0>(batch).is_same(x));
  EXPECT_EQ(std::get<3>(batch), 7);
}

TEST(PinMemory, HappensInTheWorkersAndWarnsWithoutAGpu) {
  const Pinning pinning;
  std::vector<std::string> warnings;
  auto before = core::set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  batches_of(DataLoader(Numbers{6}, {.batch_size = 2, .num_workers = 2, .pin_memory = true}));
  core::set_warning_handler(before);
  EXPECT_EQ(pinning.count->load(), 3);
  EXPECT_THAT(warnings, ElementsAre("'pin_memory' argument is set as true but no accelerator is found, then device "
                                    "pinned memory won't be used."));
}

TEST(ConcatDataset, GivesOneDatasetAfterTheOther) {
  const Numbers first{2};
  core::ConcatDataset both(first, core::ListDataset<std::int64_t>({7, 8, 9}));
  EXPECT_EQ(both.size(), 5);
  EXPECT_THAT(both.cumulative_sizes(), ElementsAre(2, 5));
  EXPECT_EQ(both.get(1), 1);
  EXPECT_EQ(both.get(2), 7);
  EXPECT_EQ(both.get(-1), 9);
  EXPECT_EQ(message_of([&] { both.get(5); }), "list index out of range");
  EXPECT_EQ(message_of([&] { both.get(-6); }), "absolute value of index should not exceed dataset length");
  EXPECT_EQ(batches_of(DataLoader(both, {.batch_size = 5})).size(), 1U);
  using Parts = std::vector<core::ConcatDataset<int>::Part>;
  EXPECT_EQ(message_of([] { core::ConcatDataset<int>{Parts()}; }), "datasets should not be an empty iterable");
}

TEST(StackDataset, PutsSamplesSideBySide) {
  core::StackDataset pairs(Numbers{2}, core::ListDataset<std::string>({"a", "b"}));
  EXPECT_EQ(pairs.get(1), std::make_tuple(std::int64_t{1}, std::string("b")));
  EXPECT_EQ(message_of([] { core::StackDataset(Numbers{2}, Numbers{3}); }), "Size mismatch between datasets");
}

TEST(Subset, CountsNegativeIndicesFromTheEnd) {
  core::Subset subset(Numbers{9}, {3, 5});
  EXPECT_EQ(subset.get(-1), 5);
  EXPECT_EQ(message_of([&] { subset.get(2); }), "list index out of range");
}

TEST(Collate, TakesArraysAndNamesAMissingKey) {
  const std::vector<std::array<double, 2>> arrays = {{1, 2}, {3, 4}};
  EXPECT_TRUE(core::default_collate(arrays)[1].equal(core::tensor({2.0, 4.0}, {.dtype = core::DType::f64})));
  using Map = std::map<std::string, int>;
  EXPECT_EQ(message_of([] { core::default_collate(std::vector<Map>{{{"a", 1}}, {{"b", 2}}}); }), "a");
  EXPECT_EQ(message_of([] { core::default_collate(std::vector<int>{}); }), "list index out of range");
  EXPECT_EQ(message_of([] { core::default_collate(std::vector<Tensor>{Tensor()}); }),
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class "
            "'NoneType'>");
}

}  // namespace
