#include "libcore/dist/zero_redundancy_optimizer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/fail.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/init.h"
#include "libcore/dist/store_service.h"
#include "libcore/tensor/factory.h"

namespace core::distributed {

struct ZeroRedundancyOptimizer::Parts {
  std::vector<ParamGroup> groups;
  OptionMap defaults;
  Group group;
  std::vector<std::vector<std::int64_t>> partition;
  std::unique_ptr<Optimizer> local;
};

ZeroRedundancyOptimizer::Parts ZeroRedundancyOptimizer::divided(std::vector<ParamGroup> groups,
                                                                const MakeOptimizer& make, const Group& given) {
  Parts parts{.groups = std::move(groups),
              .defaults = {},
              .group = given ? given : default_group(),
              .partition = {},
              .local = {}};
  const auto ranks = static_cast<std::size_t>(parts.group->size());
  const auto me = static_cast<std::size_t>(parts.group->rank());
  parts.partition.resize(ranks);
  std::vector<std::int64_t> sizes(ranks, 0);
  std::vector<ParamGroup> own;
  std::int64_t number = 0;
  for (const ParamGroup& group : parts.groups) {
    std::vector<std::pair<std::int64_t, Tensor>> all;
    for (const Tensor& param : group.params) all.emplace_back(number++, param);
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second.numel() > b.second.numel(); });
    ParamGroup& share = own.emplace_back(ParamGroup{{}, group.options});
    for (const auto& [index, param] : all) {
      const auto rank = static_cast<std::size_t>(std::min_element(sizes.begin(), sizes.end()) - sizes.begin());
      parts.partition[rank].push_back(index);
      sizes[rank] += param.numel();
      if (rank == me) share.params.push_back(param);
    }
  }
  std::erase_if(own, [](const ParamGroup& share) { return share.params.empty(); });
  // A rank without a share needs the options' defaults all the same.
  parts.local = make(own.empty() ? parts.groups : own);
  parts.defaults = parts.local->defaults();
  if (own.empty()) parts.local.reset();
  return parts;
}

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(Parts parts)
    : Optimizer("ZeroRedundancyOptimizer", std::move(parts.groups), std::move(parts.defaults)),
      group_(std::move(parts.group)),
      partition_(std::move(parts.partition)),
      local_(std::move(parts.local)) {
  register_state_dict_pre_hook([this](Optimizer&) {
    if (is_consolidated_) return;
    const std::string rank = std::to_string(group_->rank());
    core::detail::fail(
        "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to=" + rank +
        ")` on all ranks beforehand if you meant to save the global state.");
  });
  register_load_state_dict_post_hook([this](Optimizer&) { take_own_state(); });
}

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(std::vector<ParamGroup> groups, const MakeOptimizer& make,
                                                 const Group& group)
    : ZeroRedundancyOptimizer(divided(std::move(groups), make, group)) {}
ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(const std::vector<Tensor>& params, const MakeOptimizer& make,
                                                 const Group& group)
    : ZeroRedundancyOptimizer(std::vector<ParamGroup>{{.params = params}}, make, group) {}

const Tensor& ZeroRedundancyOptimizer::parameter(std::int64_t number) const {
  for (const ParamGroup& group : param_groups()) {
    if (number < static_cast<std::int64_t>(group.params.size())) return group.params[static_cast<std::size_t>(number)];
    number -= static_cast<std::int64_t>(group.params.size());
  }
  core::detail::fail_value("no parameter has this number");
}

void ZeroRedundancyOptimizer::update(const ParamGroup& group) {
  // One step of the share, whose groups follow this optimizer's (a schedule changes these), goes with the first group.
  if (&group != &param_groups().front()) return;
  if (local_) {
    for (ParamGroup& share : local_->param_groups()) {
      for (const ParamGroup& whole : param_groups()) {
        const auto is_first = [&](const Tensor& param) { return param.is_same(share.params.front()); };
        if (std::any_of(whole.params.begin(), whole.params.end(), is_first)) share.options = whole.options;
      }
    }
    local_->step();
  }
  send_updated();
  is_consolidated_ = false;
}

void ZeroRedundancyOptimizer::send_updated() {
  if (group_->size() == 1) return;
  std::vector<Work> works;
  for (std::size_t rank = 0; rank < partition_.size(); ++rank) {
    for (const std::int64_t number : partition_[rank]) {
      works.push_back(broadcast(parameter(number).data_alias(), group_->ranks()[rank],
                                {.group = group_, .async_op = true, .label = "updated parameters"}));
    }
  }
  for (const Work& work : works) work.wait();
}

void ZeroRedundancyOptimizer::take_own_state() {
  OptimizerState state;
  if (local_) {
    std::int64_t number = 0;
    for (const ParamGroup& share : local_->param_groups()) {
      OptimizerState::Group& group = state.param_groups.emplace_back(OptimizerState::Group{share.options, {}});
      for (const Tensor& param : share.params) {
        const ParamState& whole = state_of(param);
        if (!whole.empty()) state.state.emplace_back(number, whole);
        group.params.push_back(number++);
      }
    }
    local_->load_state_dict(state);
  }
  for (const ParamGroup& group : param_groups()) {
    for (const Tensor& param : group.params) mutable_state_of(param).clear();
  }
  is_consolidated_ = false;
}

// The state of a share as bytes: for each of its parameters in the order of the partition how many tensors, and of each
// its name, dtype, sizes and elements.
std::string ZeroRedundancyOptimizer::packed_state() const {
  std::string out;
  for (const std::int64_t number : partition_[static_cast<std::size_t>(group_->rank())]) {
    const ParamState& state = local_->state_of(parameter(number));
    wire::put<std::uint64_t>(out, state.size());
    for (const auto& [name, tensor] : state) {
      const Tensor host = tensor.detach().cpu().contiguous();
      wire::put_text(out, name);
      wire::put<std::uint8_t>(out, static_cast<std::uint8_t>(host.dtype()));
      wire::put<std::uint64_t>(out, host.sizes().size());
      for (const std::int64_t size : host.sizes()) wire::put<std::int64_t>(out, size);
      const auto bytes = static_cast<std::size_t>(host.nbytes());
      wire::put_text(out, std::string_view(static_cast<const char*>(host.raw_data()), bytes));
    }
  }
  return out;
}

namespace {

/// Reads what packed_state() wrote, in a process of the same program.
class StateReader {
 public:
  explicit StateReader(const std::string& bytes) : rest_(bytes) {}
  template <class T>
  T number() {
    if (rest_.size() < sizeof(T)) fail();
    const T value = wire::number_at<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  std::string_view text() {
    const auto length = number<std::uint64_t>();
    if (length > rest_.size()) fail();
    const std::string_view found = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return found;
  }
  Tensor tensor() {
    const auto dtype = number<std::uint8_t>();
    const auto dims = number<std::uint64_t>();
    if (dtype >= kDTypeCount || dims > 64) fail();
    Shape sizes;
    std::uint64_t count = 1;
    for (std::uint64_t i = 0; i < dims; ++i) {
      sizes.push_back(number<std::int64_t>());
      if (sizes.back() < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(sizes.back()), &count)) fail();
    }
    const std::string_view bytes = text();
    if (byte_size(static_cast<DType>(dtype), count) != bytes.size()) fail();
    const Tensor made = empty(sizes, {.dtype = static_cast<DType>(dtype)});
    if (!bytes.empty()) std::memcpy(made.mutable_raw_data(), bytes.data(), bytes.size());
    return made;
  }

 private:
  [[noreturn]] static void fail() {
    throw Error(ErrorCode::corrupt, "the state of an optimizer that another rank sent contradicts itself");
  }
  std::string_view rest_;
};

}  // namespace

void ZeroRedundancyOptimizer::take_state_of(int rank, const std::string& packed) {
  StateReader in(packed);
  for (const std::int64_t number : partition_[static_cast<std::size_t>(rank)]) {
    ParamState& state = mutable_state_of(parameter(number));
    state.clear();
    for (auto left = in.number<std::uint64_t>(); left > 0; --left) {
      std::string name(in.text());
      state.emplace_back(std::move(name), in.tensor());
    }
  }
}

void ZeroRedundancyOptimizer::consolidate_state_dict(int to) {
  const NoGradGuard no_grad;
  for (int rank = 0; rank < group_->size(); ++rank) {
    if (partition_[static_cast<std::size_t>(rank)].empty()) continue;
    const bool is_sender = rank == group_->rank();
    std::string packed = is_sender ? packed_state() : "";
    if (rank != to) {
      const Device place = group_->own_device();
      Tensor size = full({1}, static_cast<std::int64_t>(packed.size()), {.dtype = DType::i64, .device = place});
      if (is_sender) send(size, group_->ranks()[static_cast<std::size_t>(to)], {.group = group_});
      if (group_->rank() == to) recv(size, group_->ranks()[static_cast<std::size_t>(rank)], {.group = group_});
      const Tensor bytes = empty({size.item<std::int64_t>()}, {.dtype = DType::u8});
      if (is_sender) {
        std::memcpy(bytes.mutable_raw_data(), packed.data(), packed.size());
        send(bytes.to(place), group_->ranks()[static_cast<std::size_t>(to)], {.group = group_});
      }
      if (group_->rank() == to) {
        const Tensor there = bytes.to(place);
        recv(there, group_->ranks()[static_cast<std::size_t>(rank)], {.group = group_});
        const Tensor here = there.cpu();
        packed.assign(static_cast<const char*>(here.raw_data()), static_cast<std::size_t>(here.numel()));
      }
    }
    if (group_->rank() == to) take_state_of(rank, packed);
  }
  is_consolidated_ = group_->rank() == to;
}

}  // namespace core::distributed
