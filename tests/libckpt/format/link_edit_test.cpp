// Which links of an HDF5 file move when tensors get other names.

#include "libckpt/format/hdf5_write/link_edit.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "libcore/base/text.h"
#include "tests/libckpt/format/native_support.h"

namespace ckpt::detail {
namespace {

using Names = std::vector<std::string>;
using Moves = std::vector<std::pair<std::string, std::string>>;

/// Datasets of these names, the i-th over the i-th run of bytes.
class Plans {
 public:
  Hdf5Plan of(const Names& names) {
    while (payloads_.size() < names.size()) {
      payloads_.push_back(std::make_unique<Payload>());
      payloads_.back()->offset = 4096 + 64 * payloads_.size();
      payloads_.back()->size = sizeof(float);
    }
    std::vector<Hdf5Path> paths = plan_hdf5_paths(names);
    Hdf5Plan plan;
    for (std::size_t i = 0; i < names.size(); ++i) {
      plan.datasets.push_back({names[i], paths[i], entry_.get(), payloads_[i].get()});
    }
    return plan;
  }
  std::optional<LinkEdit> edit(const Names& before, const Names& after) {
    return plan_link_edit(of(before), of(after));
  }

 private:
  std::shared_ptr<Entry> entry_ = test::entry(core::DType::f32, {1}, core::ByteVector(4));
  std::vector<std::unique_ptr<Payload>> payloads_;
};

TEST(LinkEdit, AGroupMovesAsAWhole) {
  std::optional<LinkEdit> edit =
      Plans().edit({"module.fc.weight", "module.fc.bias", "module.bn.weight"}, {"fc.weight", "fc.bias", "bn.weight"});
  ASSERT_TRUE(edit);
  EXPECT_EQ(edit->moved, (Moves{{"/module/bn", "/bn"}, {"/module/fc", "/fc"}}));
  EXPECT_EQ(edit->removed, Names{"/module"});
  EXPECT_TRUE(edit->made.empty());
}

TEST(LinkEdit, APrefixMakesItsGroup) {
  std::optional<LinkEdit> edit =
      Plans().edit({"fc.weight", "fc.bias", "scale"}, {"a.module.fc.weight", "a.module.fc.bias", "a.module.scale"});
  ASSERT_TRUE(edit);
  EXPECT_EQ(edit->made, (Names{"/a", "/a/module"}));
  EXPECT_EQ(edit->moved, (Moves{{"/fc", "/a/module/fc"}, {"/scale", "/a/module/scale"}}));
  EXPECT_TRUE(edit->removed.empty());
}

TEST(LinkEdit, TheGroupAboveStaysWhereOthersLieInIt) {
  std::optional<LinkEdit> edit =
      Plans().edit({"model.module.a", "model.module.b", "model.c"}, {"model.a", "model.b", "model.c"});
  ASSERT_TRUE(edit);
  EXPECT_EQ(edit->moved, (Moves{{"/model/module/a", "/model/a"}, {"/model/module/b", "/model/b"}}));
  EXPECT_EQ(edit->removed, Names{"/model/module"});
  edit = Plans().edit({"model.module.a", "model.module.b"}, {"model.a", "model.b"});
  ASSERT_TRUE(edit);
  EXPECT_EQ(edit->moved.size(), 2U);
}

TEST(LinkEdit, NothingMovesWhereNamesStay) {
  std::optional<LinkEdit> edit = Plans().edit({"a.b", "c"}, {"a.b", "c"});
  ASSERT_TRUE(edit);
  EXPECT_TRUE(edit->is_empty());
}

TEST(LinkEdit, IsNotForPlacesThatOthersLeave) {
  EXPECT_FALSE(Plans().edit({"a", "b"}, {"b", "a"}));
  EXPECT_FALSE(Plans().edit({"a.x", "b.x"}, {"b.x", "c.x"}));
  EXPECT_FALSE(Plans().edit({"module.x", "module.y"}, {"module.module.x", "module.module.y"}));
}

TEST(LinkEdit, IsNotForDatasetsThatChange) {
  Plans plans;
  EXPECT_FALSE(plans.edit({"a"}, {"x/y"}));  // the name does not show in the path, so an attribute has it
  EXPECT_FALSE(plans.edit({"a"}, {"a", "b"}));
  Hdf5Plan moved = plans.of({"a", "b"});
  std::swap(moved.datasets[0].payload, moved.datasets[1].payload);
  EXPECT_FALSE(plan_link_edit(plans.of({"a", "b"}), moved));
}

std::string text_of(const Hdf5Path& path) {
  return "/" + core::join(path, "/");
}

/// Links as libhdf5 changes them: every step must find what it needs and nothing in its way.
class Links {
 public:
  explicit Links(const Hdf5Plan& plan) {
    for (std::size_t i = 0; i < plan.datasets.size(); ++i) {
      std::string path = text_of(plan.datasets[i].path);
      all_[path] = static_cast<int>(i);
      for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
        all_[path.substr(0, at)] = kGroup;
      }
    }
  }
  void apply(const LinkEdit& edit) {
    for (const std::string& group : edit.made) add(group, kGroup);
    for (const auto& [from, to] : edit.moved) move(from, to);
    for (const std::string& group : edit.removed) {
      ASSERT_TRUE(below(group).empty()) << group;
      ASSERT_EQ(all_.erase(group), 1U) << group;
    }
  }
  friend bool operator==(const Links&, const Links&) = default;

 private:
  static constexpr int kGroup = -1;

  void add(const std::string& path, int what) {
    std::size_t slash = path.rfind('/');
    ASSERT_TRUE(slash == 0 || all_.contains(path.substr(0, slash))) << path;
    ASSERT_TRUE(all_.emplace(path, what).second) << path;
  }
  std::map<std::string, int> below(const std::string& path) const {
    std::map<std::string, int> found;
    for (const auto& [other, what] : all_) {
      if (other.starts_with(path + "/")) found.emplace(other, what);
    }
    return found;
  }
  void move(const std::string& from, const std::string& to) {
    ASSERT_TRUE(all_.contains(from)) << from;
    std::map<std::string, int> moved = below(from);
    int what = all_.at(from);
    all_.erase(from);
    for (const auto& [path, ignored] : moved) all_.erase(path);
    add(to, what);
    for (const auto& [path, one] : moved) add(to + path.substr(from.size()), one);
  }

  std::map<std::string, int> all_;
};

TEST(LinkEdit, LeadsToTheNewNamesWhateverTheyAre) {
  std::mt19937 random(3);
  auto pick = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  const Names parts = {"a", "b", "module", "fc"};
  auto make_name = [&] {
    std::string name = parts[pick(parts.size())];
    for (std::size_t i = pick(4); i > 0; --i) name += "." + parts[pick(parts.size())];
    return name;
  };
  const std::vector<std::function<std::string(const std::string&)>> changes = {
      [](const std::string& name) { return "module." + name; },
      [](const std::string& name) { return name.starts_with("module.") ? name.substr(7) : name; },
      [](const std::string& name) { return name.starts_with("a.") ? "new." + name.substr(2) : name; },
      [&](const std::string& name) { return pick(4) == 0 ? name + ".new" : name; },
      [&](const std::string&) { return make_name(); }};
  std::size_t planned = 0;
  for (int round = 0; round < 3000; ++round) {
    std::set<std::string> before;
    for (std::size_t i = 1 + pick(8); i > 0; --i) before.insert(make_name());
    Names old_names(before.begin(), before.end());
    Names new_names;
    const auto& change = changes[pick(changes.size())];
    for (const std::string& name : old_names) new_names.push_back(change(name));
    Plans plans;
    std::optional<LinkEdit> edit = plans.edit(old_names, new_names);
    if (!edit) continue;
    ++planned;
    Links links(plans.of(old_names));
    links.apply(*edit);
    ASSERT_TRUE(links == Links(plans.of(new_names)))
        << core::join(old_names, " ") << " -> " << core::join(new_names, " ");
  }
  EXPECT_GT(planned, 1000U);
}

}  // namespace
}  // namespace ckpt::detail
