#pragma once
// ZeroRedundancyOptimizer: an optimizer whose state is spread over the ranks: each updates its share of the parameters
// and sends them to all. Saves memory where the state is larger than the model (Adam: twice). As
// torch.distributed.optim.ZeroRedundancyOptimizer, around any optimizer of core.
// Thread safety: as Optimizer; all ranks make the same calls.
// Use: core::distributed::ZeroRedundancyOptimizer optimizer(net.parameters(), [](std::vector<core::ParamGroup> groups)
// {
//   return std::make_unique<core::Adam>(std::move(groups), core::AdamOptions{.lr = 0.01}); });

#include <functional>
#include <memory>
#include <vector>

#include "libcore/dist/process_group.h"
#include "libcore/optim/optimizer.h"

namespace core::distributed {

class ZeroRedundancyOptimizer final : public Optimizer {
 public:
  /// Makes the optimizer of this rank's share.
  using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<ParamGroup> groups)>;

  ZeroRedundancyOptimizer(const std::vector<Tensor>& params, const MakeOptimizer& make, const Group& group = {});
  ZeroRedundancyOptimizer(std::vector<ParamGroup> groups, const MakeOptimizer& make, const Group& group = {});

  /// Gathers the state of all ranks at rank `to`, which can then save it: state_dict() is the whole state there, as one
  /// optimizer would have it. Before that call Error(runtime) "Optimizer state has not been consolidated on this rank.
  /// ...".
  void consolidate_state_dict(int to = 0);
  /// Numbers of the parameters that each rank updates: the largest first, each to the rank that has least so far.
  const std::vector<std::vector<std::int64_t>>& partition() const { return partition_; }
  /// Of this rank's share; null where it has none.
  const Optimizer* local() const { return local_.get(); }

 protected:
  void update(const ParamGroup& group) override;

 private:
  struct Parts;
  explicit ZeroRedundancyOptimizer(Parts parts);
  static Parts divided(std::vector<ParamGroup> groups, const MakeOptimizer& make, const Group& group);
  void send_updated();
  void take_own_state();
  std::string packed_state() const;
  void take_state_of(int rank, const std::string& packed);
  const Tensor& parameter(std::int64_t number) const;

  Group group_;
  std::vector<std::vector<std::int64_t>> partition_;
  std::unique_ptr<Optimizer> local_;
  bool is_consolidated_ = false;
};

}  // namespace core::distributed
