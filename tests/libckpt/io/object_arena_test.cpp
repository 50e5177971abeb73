#include "libckpt/io/object_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "libckpt/io/distinct.h"
#include "libckpt/io/large_pages.h"
#include "libckpt/io/shared_bytes.h"

namespace {

using ckpt::detail::ObjectArena;

/// Counts those that are there.
struct Counted {
  explicit Counted(std::string text_in, bool fails = false) : text(std::move(text_in)) {
    if (fails) throw std::runtime_error("refused");
    ++alive;
  }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  std::string text;
  static inline std::atomic<int> alive = 0;
};

std::vector<std::shared_ptr<Counted>> make(std::size_t count, std::uint64_t expected) {
  ObjectArena arena(expected);
  std::vector<std::shared_ptr<Counted>> made;
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back(arena.make<Counted>("a text that no short string holds, number " + std::to_string(i)));
    if (i % 3 == 1) made.erase(made.end() - 2);  // some go while others are still made
  }
  return made;
}

TEST(ObjectArena, KeepsObjectsUntilTheLastHasGone) {
  for (std::uint64_t expected : {std::uint64_t{0}, std::uint64_t{1000}, std::uint64_t{5} << 20}) {
    auto made = make(30000, expected);
    EXPECT_EQ(Counted::alive, 20000);
    EXPECT_EQ(made.front()->text, "a text that no short string holds, number 1");
    EXPECT_EQ(made.back()->text, "a text that no short string holds, number 29999");
    std::shared_ptr<Counted> last = made[777];
    const std::string text = last->text;
    made.clear();
    EXPECT_EQ(Counted::alive, 1);
    EXPECT_EQ(last->text, text);
    last.reset();
    EXPECT_EQ(Counted::alive, 0);
  }
}

TEST(ObjectArena, GivesBackWhatAConstructorThatThrowsTook) {
  std::shared_ptr<Counted> kept;
  {
    ObjectArena arena(0);
    kept = arena.make<Counted>("kept");
    EXPECT_THROW(arena.make<Counted>("lost", true), std::runtime_error);
  }
  EXPECT_EQ(kept->text, "kept");
  EXPECT_EQ(Counted::alive, 1);
  kept.reset();
  EXPECT_EQ(Counted::alive, 0);
}

TEST(ObjectArena, LetsObjectsGoOnAnyThread) {
  auto made = make(3000, 0);
  const std::size_t half = made.size() / 2;
  std::vector<std::shared_ptr<Counted>> other(made.begin() + static_cast<std::ptrdiff_t>(half), made.end());
  made.resize(half);
  std::thread thread([&] { other.clear(); });
  made.clear();
  thread.join();
  EXPECT_EQ(Counted::alive, 0);
}

TEST(LargeBlock, HoldsItsBytesWhereverItMoves) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{5} << 20}) {
    ckpt::detail::LargeBlock first(size);
    std::ranges::fill(first.bytes(), std::byte{7});
    const std::byte* memory = first.data();
    ckpt::detail::LargeBlock second(std::move(first));
    EXPECT_EQ(second.data(), memory);
    EXPECT_EQ(second.size(), size);
    EXPECT_EQ(std::ranges::count(second.bytes(), std::byte{7}), static_cast<std::ptrdiff_t>(size));
  }
}

TEST(LargePages, HoldAVectorThatGrows) {
  ckpt::detail::LargeVector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) numbers.push_back(i * i);
  const ckpt::detail::LargeVector<std::uint64_t> copy = numbers;
  for (std::uint64_t i = 0; i < copy.size(); i += 997) ASSERT_EQ(copy[i], i * i);
}

TEST(SharedBytes, KeepTheirBlockAlive) {
  ckpt::detail::SharedBytes part;
  {
    const ckpt::detail::SharedBytes whole(core::ByteVector(100'000, std::byte{9}));
    part = whole.part(whole.bytes().subspan(50'000, 7));
  }
  EXPECT_EQ(part.size(), 7U);
  EXPECT_EQ(std::ranges::count(part.bytes(), std::byte{9}), 7);
}

TEST(Distinct, FindsWhatIsThereTwice) {
  std::vector<int> numbers(5000);
  std::vector<const int*> all;
  for (const int& number : numbers) all.push_back(&number);
  EXPECT_TRUE(ckpt::detail::all_differ(all));
  all.push_back(nullptr);
  EXPECT_TRUE(ckpt::detail::all_differ(all));
  std::vector<const int*> twice = all;
  twice.push_back(&numbers[4999]);
  EXPECT_FALSE(ckpt::detail::all_differ(twice));
  all.push_back(nullptr);
  EXPECT_FALSE(ckpt::detail::all_differ(all));
  EXPECT_TRUE(ckpt::detail::all_differ(std::vector<const int*>{}));
  std::vector<const int*> falling(twice.rbegin() + 2, twice.rend());
  EXPECT_TRUE(ckpt::detail::all_differ(falling));
  falling.push_back(&numbers[17]);
  EXPECT_FALSE(ckpt::detail::all_differ(falling));
}

}  // namespace
