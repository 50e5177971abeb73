#include <gtest/gtest.h>

#include <random>
#include <set>

#include "libckpt/format/hdf5_write/hdf5_names.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

std::string path_of(const std::string& name) {
  return core::join(plan_hdf5_paths(std::vector<std::string>{name})[0], "/");
}

TEST(NativeNames, DotsAreGroups) {
  EXPECT_EQ(path_of("module.fc.weight"), "module/fc/weight");
}

TEST(NativeNames, EscapesWhatHdf5WouldChange) {
  EXPECT_EQ(path_of("a/b"), "a%2Fb");
  EXPECT_EQ(path_of("a..b"), "a/%-/b");
  EXPECT_EQ(path_of(""), "%-");
  EXPECT_EQ(path_of("."), "%-/%-");
  EXPECT_EQ(path_of("50%"), "50%25");
  EXPECT_EQ(path_of(std::string("a\0b", 3)), "a%00b");
  EXPECT_EQ(path_of("\xff"), "%FF");
  EXPECT_EQ(path_of("größe.æ"), "größe/æ");
}

TEST(NativeNames, TensorBesideGroupOfItsName) {
  std::vector<std::string> names = {"a", "a.b", "a.b.c"};
  std::vector<Hdf5Path> paths = plan_hdf5_paths(names);
  EXPECT_EQ(core::join(paths[0], "/"), "a%=");
  EXPECT_EQ(core::join(paths[1], "/"), "a/b%=");
  EXPECT_EQ(core::join(paths[2], "/"), "a/b/c");
}

TEST(NativeNames, EqualNamesGetTheirOwnPaths) {
  std::vector<std::string> names = {"a.b", "a.b", "a.b"};
  std::vector<Hdf5Path> paths = plan_hdf5_paths(names);
  EXPECT_EQ(core::join(paths[1], "/"), "a/b%~2");
  EXPECT_EQ(core::join(paths[2], "/"), "a/b%~3");
}

TEST(NativeNames, DeepNamesStayShallow) {
  std::string name = "a";
  for (int i = 0; i < 100; ++i) name += ".a";
  std::vector<Hdf5Path> paths = plan_hdf5_paths(std::vector<std::string>{name});
  EXPECT_EQ(paths[0].size(), 24U);
  EXPECT_EQ(name_of_hdf5_path(paths[0]), name);
}

TEST(NativeNames, AttributeOnlyWherePathDiffers) {
  EXPECT_TRUE(path_shows_name({"module", "weight"}, "module.weight"));
  EXPECT_FALSE(path_shows_name({"a%2Fb"}, "a/b"));
}

// Every name comes back from its path, and no two names share one, whatever stands beside them.
TEST(NativeNames, MappingIsOneToOne) {
  std::mt19937 random(7);
  constexpr std::string_view kLetters[] = {".", ".", "a", "b", "%", "/", "2", "F", "-", "=", "~", "\xc3\xa9", "\xff"};
  std::uniform_int_distribution<std::size_t> letter(0, std::size(kLetters) - 1);
  std::uniform_int_distribution<std::size_t> length(0, 7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> names;
    for (int i = 0; i < 60; ++i) {
      std::string name;
      for (std::size_t n = length(random); n > 0; --n) name += kLetters[letter(random)];
      names.push_back(name);
    }
    std::vector<Hdf5Path> paths = plan_hdf5_paths(names);
    std::set<Hdf5Path> distinct(paths.begin(), paths.end());
    ASSERT_EQ(distinct.size(), names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      ASSERT_EQ(name_of_hdf5_path(paths[i]), names[i]);
      for (const std::string& link : paths[i]) {
        ASSERT_FALSE(link.empty() || link == "." || link.find('/') != std::string::npos) << link;
      }
      for (std::size_t links = 1; links < paths[i].size(); ++links) {
        Hdf5Path group(paths[i].begin(), paths[i].begin() + static_cast<std::ptrdiff_t>(links));
        ASSERT_FALSE(distinct.contains(group)) << "a group and a tensor at " << core::join(group, "/");
      }
    }
  }
}

}  // namespace
}  // namespace ckpt::detail
