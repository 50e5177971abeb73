#include "libckpt/dist/ranks.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/init.h"

namespace ckpt::dist {
namespace {

using core::distributed::Group;

class Alone final : public Ranks {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> exchange(const std::string& mine) override { return {mine}; }
};

class GroupRanks final : public Ranks {
 public:
  explicit GroupRanks(Group group) : group_(std::move(group)) {}
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::vector<std::string> exchange(const std::string& mine) override {
    return core::distributed::all_gather_object(mine, group_);
  }

 private:
  Group group_;
};

}  // namespace

std::unique_ptr<Ranks> ranks_of(const Group& group) {
  if (group != nullptr) return std::make_unique<GroupRanks>(group);
  if (!core::distributed::is_initialized()) return std::make_unique<Alone>();
  return std::make_unique<GroupRanks>(core::distributed::default_group());
}

}  // namespace ckpt::dist
