#include "libcore/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "libcore/base/warning.h"
#include "libcore/tensor/print.h"
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

std::vector<std::vector<std::int64_t>> batches_of(const DataLoader<Numbers>& loader) {
  std::vector<std::vector<std::int64_t>> batches;
  for (const Tensor& batch : loader) batches.push_back(batch.to_vector<std::int64_t>());
  return batches;
}

TEST(DataLoader, ShufflesInTheReferenceOrder) {
  core::manual_seed(0);
  DataLoader loader(Numbers{10}, {.batch_size = 4, .shuffle = true});
  EXPECT_THAT(batches_of(loader), ElementsAre(ElementsAre(6, 7, 1, 4), ElementsAre(2, 0, 9, 8), ElementsAre(3, 5)));
  EXPECT_THAT(batches_of(loader), ElementsAre(ElementsAre(2, 4, 7, 0), ElementsAre(8, 9, 5, 3), ElementsAre(6, 1)));
  EXPECT_EQ(loader.size(), 3);
}

TEST(DataLoader, WorkersGiveTheSameBatchesInOrder) {
  core::manual_seed(0);
  auto alone = batches_of(DataLoader(Numbers{100}, {.batch_size = 7, .shuffle = true}));
  core::manual_seed(0);
  auto together = batches_of(DataLoader(Numbers{100}, {.batch_size = 7, .shuffle = true, .num_workers = 3}));
  EXPECT_EQ(alone, together);
}

TEST(DataLoader, EachWorkerHasItsOwnSeededGenerator) {
  struct Seeds {
    std::int64_t size() const { return 4; }
    std::vector<std::int64_t> get(std::int64_t) const {
      auto info = core::worker_info().value();
      auto seed = static_cast<std::int64_t>(core::default_generator().initial_seed());
      return {info.id, info.num_workers, info.seed, seed};
    }
  };
  core::manual_seed(0);
  std::int64_t worker = 0;
  DataLoader loader(Seeds{}, {.num_workers = 2});
  for (auto& batch : loader) {
    std::int64_t id = worker++ % 2;
    EXPECT_EQ(batch[0].item<std::int64_t>(), id);
    EXPECT_EQ(batch[1].item<std::int64_t>(), 2);
    EXPECT_EQ(batch[2].item<std::int64_t>(), 900450186894289455 + id);  // the base seed of seed 0
    EXPECT_EQ(batch[3].item<std::int64_t>(), 900450186894289455 + id);
  }
  EXPECT_FALSE(core::worker_info().has_value());
}

TEST(DataLoader, StackedSamplesOfATensorDatasetAreRows) {
  Tensor x = core::arange(10).view({5, 2});
  Tensor y = core::arange(5);
  std::vector<std::int64_t> seen;
  for (auto& [rows, labels] : DataLoader(core::TensorDataset(x, y), {.batch_size = 2})) {
    EXPECT_TRUE(rows.select(1, 0).equal(labels * 2));
    for (std::int64_t label : labels.to_vector<std::int64_t>()) seen.push_back(label);
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4));
}

/// Changes its samples in place.
struct Changed {
  Tensor rows = core::ones({4, 3});
  Tensor scale = core::ones({3});
  std::int64_t size() const { return 4; }
  Tensor get(std::int64_t i) const { return rows[i].mul_(scale); }
};

TEST(DataLoader, ADatasetMayChangeItsRowsInPlace) {
  Changed data;
  data.scale.fill_(2);
  for (const Tensor& batch : DataLoader(data, {.batch_size = 4})) EXPECT_EQ(batch.sum().item<float>(), 24);
  EXPECT_EQ(data.rows.sum().item<float>(), 24);
}

TEST(DataLoader, ADatasetMayNotRecordAChangeOfItsRows) {
  Changed data;
  data.scale.requires_grad_();
  EXPECT_THAT(message_of([&] { DataLoader(data, {.batch_size = 4}).begin(); }),
              testing::StartsWith("A view was created in no_grad mode and is being modified inplace"));
}

/// Keeps one of its samples for itself.
struct Keeping {
  Tensor rows = core::arange(12).view({6, 2});
  mutable Tensor kept = {};
  std::int64_t size() const { return 6; }
  std::pair<Tensor, Tensor> get(std::int64_t i) const {
    Tensor row = rows[i];
    if (i == 1) kept = row;
    return {row, i == 4 ? row.to(core::DType::f32) : row[0]};
  }
};

TEST(DataLoader, ASampleThatTheDatasetKeepsStaysWhatItIs) {
  Keeping data;
  std::vector<std::int64_t> firsts;
  for (auto& [rows, first] : DataLoader(core::Subset(data, {0, 1, 2, 3, 5}), {.batch_size = 2})) {
    for (std::int64_t value : rows.select(1, 0).to_vector<std::int64_t>()) firsts.push_back(value);
    EXPECT_TRUE(first.equal(rows.select(1, 0)));
  }
  EXPECT_THAT(firsts, ElementsAre(0, 2, 4, 6, 10));
  EXPECT_TRUE(data.kept.equal(core::tensor({2, 3})));
}

/// Makes each sample from memory of its own, and counts how much of it there is.
struct Loading {
  float memory[6] = {0, 1, 2, 3, 4, 5};
  mutable int alive = 0;
  std::int64_t size() const { return 6; }
  Tensor get(std::int64_t i) const {
    ++alive;
    auto let_go = [](void* count) { --*static_cast<int*>(count); };
    float* place = const_cast<float*>(memory) + i;
    return core::from_blob(place, {1, 1}, core::DType::f32, {}, let_go, &alive)[0];
  }
};

TEST(DataLoader, WhatWasLoadedForOneSampleGoesWithItsBatch) {
  const Loading data;
  std::vector<float> values;
  for (const Tensor& batch : DataLoader(data, {.batch_size = 2})) {
    EXPECT_EQ(data.alive, 0);
    values.push_back(batch.sum().item<float>());
  }
  EXPECT_THAT(values, ElementsAre(1.0F, 5.0F, 9.0F));
}

/// A sampler as a user writes it: one index a call.
struct EverySecond : core::Sampler {
  std::int64_t size() const override { return 3; }
  core::IndexStream start() override {
    return [at = std::int64_t{0}]() mutable -> std::optional<std::int64_t> {
      at += 2;
      return at > 6 ? std::nullopt : std::optional(at - 2);
    };
  }
};

TEST(DataLoader, TakesAnySampler) {
  std::vector<std::string> texts;
  DataLoader loader(Loading{}, {.batch_size = 2, .sampler = std::make_shared<EverySecond>()});
  for (const Tensor& batch : loader) texts.push_back(core::to_string(batch.view({-1})));
  EXPECT_THAT(texts, ElementsAre("tensor([0., 2.])", "tensor([4.])"));
}

/// Rows of other sizes and types than those before, on one storage.
struct Mixed {
  Tensor rows = core::arange(24).view({4, 3, 2});
  std::int64_t size() const { return 4; }
  Tensor get(std::int64_t i) const { return i < 2 ? rows[i][0] : rows[i].t()[0]; }
};

TEST(DataLoader, SamplesOfTheNextBatchMayHaveAnotherShape) {
  std::vector<std::string> texts;
  for (const Tensor& batch : DataLoader(Mixed{}, {.batch_size = 2})) texts.push_back(core::to_string(batch));
  EXPECT_THAT(texts, ElementsAre("tensor([[0, 1],\n        [6, 7]])", "tensor([[12, 14, 16],\n        [18, 20, 22]])"));
}

TEST(DataLoader, CollatesByType) {
  using Sample = std::tuple<int, double, std::string, std::map<std::string, Tensor>, std::vector<int>>;
  std::vector<Sample> samples = {{1, 2.0, "a", {{"x", core::ones({2})}}, {1}},
                                 {3, 4.0, "b", {{"x", core::zeros({2})}}, {2}}};
  auto [ints, floats, texts, maps, lists] = core::default_collate(samples);
  EXPECT_TRUE(ints.equal(core::tensor({1, 3})));
  EXPECT_EQ(floats.dtype(), core::DType::f64);
  EXPECT_THAT(texts, ElementsAre("a", "b"));
  EXPECT_EQ(maps.at("x").sizes(), (core::Shape{2, 2}));
  EXPECT_TRUE(lists.at(0).equal(core::tensor({1, 2})));
}

TEST(DataLoader, TakesAnyCollateFunction) {
  auto longest = [](const std::vector<std::int64_t>& samples) {
    return *std::max_element(samples.begin(), samples.end());
  };
  std::vector<std::int64_t> seen;
  for (std::int64_t top : DataLoader(Numbers{5}, {.batch_size = 2}, longest)) seen.push_back(top);
  EXPECT_THAT(seen, ElementsAre(1, 3, 4));
}

TEST(DataLoader, AWorkersErrorArrivesWithItsNumberAndKind) {
  struct Broken {
    std::int64_t size() const { return 3; }
    std::int64_t get(std::int64_t i) const {
      if (i == 1) throw core::Error(core::ErrorCode::value, "bad sample");
      return i;
    }
  };
  DataLoader loader(Broken{}, {.num_workers = 2});
  try {
    for (const Tensor& batch : loader) EXPECT_EQ(batch.numel(), 1);
    FAIL() << "no error";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::value);
    EXPECT_EQ(error.message(), "Caught ValueError in DataLoader worker process 1.\nOriginal exception: bad sample");
  }
}

TEST(DataLoader, AnAbandonedEpochEndsItsWorkers) {
  DataLoader loader(Numbers{1000}, {.num_workers = 2});
  for (const Tensor& batch : loader) {
    EXPECT_EQ(batch.item<std::int64_t>(), 0);
    break;
  }
  EXPECT_EQ(batches_of(loader).size(), 1000U);
}

TEST(DataLoader, WaitsNoLongerThanItsTimeout) {
  struct Stuck {
    std::shared_ptr<std::atomic<bool>> free;
    std::int64_t size() const { return 1; }
    std::int64_t get(std::int64_t) const {
      while (!free->load()) std::this_thread::yield();
      return 0;
    }
  };
  auto free = std::make_shared<std::atomic<bool>>(false);
  core::detail::WorkerPool<int> pool({.count = 1, .timeout = 0.01}, [&] {
    return [&](const std::vector<std::int64_t>&) { return std::optional(static_cast<int>(Stuck{free}.get(0))); };
  });
  pool.start([n = 0]() mutable { return n++ == 0 ? std::optional(std::vector<std::int64_t>{0}) : std::nullopt; });
  EXPECT_EQ(message_of([&] { pool.next(); }), "DataLoader timed out after 0.01 seconds");
  free->store(true);
}

TEST(DataLoader, RefusesContradictions) {
  Numbers data{4};
  auto sampler = std::make_shared<core::SequentialSampler>(4);
  EXPECT_EQ(message_of([&] { DataLoader(data, {.batch_size = 0}); }),
            "batch_size should be a positive integer value, but got batch_size=0");
  EXPECT_EQ(message_of([&] { DataLoader(data, {.shuffle = true, .sampler = sampler}); }),
            "sampler option is mutually exclusive with shuffle");
  EXPECT_EQ(message_of([&] { DataLoader(data, {.num_workers = -1}); }),
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.");
  EXPECT_EQ(message_of([&] { DataLoader(data, {.timeout = -1}); }), "timeout option should be non-negative");
  EXPECT_EQ(message_of([&] { DataLoader(data, {.prefetch_factor = 2}); }),
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None.");
  EXPECT_EQ(message_of([&] { DataLoader(data, {.persistent_workers = true}); }),
            "persistent_workers option needs num_workers > 0");
  EXPECT_EQ(message_of([&] { DataLoader(data, {.drop_last = true}, core::NoBatching{}); }),
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last");
  EXPECT_EQ(message_of([&] { DataLoader(Numbers{0}, {.shuffle = true}); }),
            "num_samples should be a positive integer value, but got num_samples=0");
  EXPECT_EQ(message_of([] { core::TensorDataset(core::ones({2}), core::ones({3})); }), "Size mismatch between tensors");
  EXPECT_EQ(message_of([] {
              core::default_collate(std::vector<Tensor>{core::ones({2}), core::ones({3})});
            }),
            "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1");
  EXPECT_EQ(message_of([] {
              core::default_collate(std::vector<std::vector<int>>{{1}, {1, 2}});
            }),
            "each element in list of batch should be of equal size");
}

TEST(RandomSplit, CutsOnePermutation) {
  core::manual_seed(0);
  auto parts = core::random_split(Numbers{6}, {4, 2});
  EXPECT_THAT(parts[0].indices(), ElementsAre(2, 5, 3, 0));
  EXPECT_THAT(parts[1].indices(), ElementsAre(1, 4));
  EXPECT_EQ(parts[1].get(1), 4);
  EXPECT_EQ(message_of([] {
              core::random_split(Numbers{6}, {4, 3});
            }),
            "Sum of input lengths does not equal the length of the input dataset!");
}

TEST(RandomSplit, WarnsOfAPartThatIsEmpty) {
  std::vector<std::string> warnings;
  auto before = core::set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  auto parts = core::random_split(Numbers{1}, {0.5, 0.5});
  core::set_warning_handler(before);
  EXPECT_EQ(parts[0].size(), 1);
  EXPECT_THAT(warnings, ElementsAre("Length of split at index 1 is 0. This might result in an empty dataset."));
}

TEST(DistributedSampler, AsksForAGroupWhereItIsNotToldWhoItIs) {
  EXPECT_EQ(message_of([] { core::DistributedSampler(4); }),
            "Default process group has not been initialized, please make sure to call init_process_group.");
}

TEST(DistributedSampler, RefusesARankOutsideOfTheGroup) {
  EXPECT_EQ(message_of([] { core::DistributedSampler(4, {.num_replicas = 2, .rank = 2}); }),
            "Invalid rank 2, rank should be in the interval [0, 1]");
}

}  // namespace
