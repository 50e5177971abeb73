#include "libckpt/dist/plan.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "libckpt/dist/messages.h"
#include "libckpt/entry.h"
#include "libckpt/format/dcp/flatten.h"
#include "libckpt/format/dcp/write.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::dist {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;
using detail::Box;
using detail::DcpItem;

std::uint64_t numel(const core::Shape& shape) {
  return core::try_numel(shape.span()).value_or(0);
}

std::uint64_t bytes_of(core::DType dtype, const core::Shape& shape) {
  return core::byte_size(dtype, numel(shape)).value_or(0);
}

/// Where a tensor of this rank lies.
Box box_of(const core::Shape& shape, const Piece& piece) {
  bool fits = piece.global_shape.size() == shape.size() && piece.offset.size() == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    fits = piece.offset[d] >= 0 && piece.offset[d] <= piece.global_shape[d] &&
           shape[d] <= piece.global_shape[d] - piece.offset[d];
  }
  if (fits) return {piece.offset, shape};
  throw Error(ErrorCode::value, "its piece " + core::to_list(shape) + " at " + core::to_list(piece.offset) +
                                    " reaches outside of the tensor " + core::to_list(piece.global_shape));
}

void write_shape(MessageWriter& out, const core::Shape& shape) {
  for (std::int64_t n : shape) out.number(static_cast<std::uint64_t>(n));
}

core::Shape read_shape(MessageReader& in, std::size_t rank) {
  core::Shape shape(rank, 0);
  for (std::int64_t& n : shape) n = static_cast<std::int64_t>(in.number() & INT64_MAX);
  return shape;
}

/// What names have in common with the one before is not sent again.
std::size_t common_start(std::string_view a, std::string_view b) {
  std::size_t most = std::min(a.size(), b.size());
  std::size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  return n;
}

void write_path(MessageWriter& out, const DcpItem& item) {
  bool plain = item.path.size() == 1 && item.path[0] == detail::PathStep(item.name);
  out.number(plain ? 0 : item.path.size());
  if (plain) return;
  for (const detail::PathStep& step : item.path) {
    const auto* text = std::get_if<std::string>(&step);
    out.number(text != nullptr ? 0 : static_cast<std::uint64_t>(std::get<std::int64_t>(step)) + 1);
    if (text != nullptr) out.number(text->size());
  }
}

/// The texts of the steps are parts of the name, which dots join.
void read_path(MessageReader& in, DcpItem& item) {
  std::uint64_t steps = in.count();
  if (steps == 0) return item.path.emplace_back(item.name), void();
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < steps; ++i) {
    std::uint64_t index = in.number();
    std::size_t size = index > 0 ? std::to_string(index - 1).size() : in.number();
    if (at > item.name.size() || size > item.name.size() - at) {
      throw Error(ErrorCode::corrupt, "a message of another rank has a path that is not its name");
    }
    if (index > 0) {
      item.path.emplace_back(static_cast<std::int64_t>(index - 1));
    } else {
      item.path.emplace_back(item.name.substr(at, size));
    }
    at += size + 1;
  }
}

bool comes_before(const core::Shape& a, const core::Shape& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

/// The boxes of one item, and the ranks that have each. Ranks mostly have them in ascending order, each its own.
class Boxes {
 public:
  void add(const Box& box, std::uint32_t rank) {
    std::size_t known = find(box);
    if (known < boxes_.size()) return others_[known].push_back(rank);
    ascending_ = ascending_ && (boxes_.empty() || comes_before(boxes_.back().offsets, box.offsets));
    boxes_.push_back(box);
    first_.push_back(rank);
    if (!ascending_) index();
  }
  /// Boxes without elements are not written, unless the tensor has none.
  void drop_empty(const core::Shape& shape) {
    if (numel(shape) == 0) {
      boxes_ = {{core::Shape(shape.size(), 0), shape}};
      first_.resize(1);
      return;
    }
    std::size_t kept = 0;
    std::map<std::size_t, std::vector<std::uint32_t>> others;
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      if (numel(boxes_[i].sizes) == 0) continue;
      if (auto found = others_.find(i); found != others_.end()) others[kept] = std::move(found->second);
      if (kept != i) boxes_[kept] = std::move(boxes_[i]);
      first_[kept++] = first_[i];
    }
    boxes_.resize(kept);
    first_.resize(kept);
    others_ = std::move(others);
  }
  bool empty() const { return boxes_.empty(); }
  std::size_t size() const { return boxes_.size(); }
  const std::vector<Box>& boxes() const { return boxes_; }
  std::vector<Box>& boxes() { return boxes_; }
  std::uint32_t first_rank(std::size_t i) const { return first_[i]; }
  std::size_t ranks_of(std::size_t i) const {
    auto found = others_.find(i);
    return 1 + (found == others_.end() ? 0 : found->second.size());
  }
  std::vector<std::uint32_t> ranks(std::size_t i) const {
    std::vector<std::uint32_t> all = {first_[i]};
    if (auto found = others_.find(i); found != others_.end()) {
      all.insert(all.end(), found->second.begin(), found->second.end());
    }
    return all;
  }

 private:
  bool is(std::size_t i, const Box& box) const {
    return boxes_[i].offsets == box.offsets && boxes_[i].sizes == box.sizes;
  }
  /// Its number, or size().
  std::size_t find(const Box& box) const {
    if (boxes_.empty() || is(boxes_.size() - 1, box)) return boxes_.empty() ? 0 : boxes_.size() - 1;
    if (!ascending_) {
      auto [from, to] = by_key_.equal_range(key_of(box));
      for (auto at = from; at != to; ++at) {
        if (is(at->second, box)) return at->second;
      }
      return boxes_.size();
    }
    if (comes_before(boxes_.back().offsets, box.offsets)) return boxes_.size();
    auto at = std::lower_bound(boxes_.begin(), boxes_.end(), box, [](const Box& known, const Box& wanted) {
      return comes_before(known.offsets, wanted.offsets);
    });
    auto place = static_cast<std::size_t>(at - boxes_.begin());
    return place < boxes_.size() && is(place, box) ? place : boxes_.size();
  }
  void index() {
    for (; indexed_ < boxes_.size(); ++indexed_) by_key_.emplace(key_of(boxes_[indexed_]), indexed_);
  }
  static std::uint64_t key_of(const Box& box) {
    std::uint64_t key = 0;
    for (std::int64_t n : box.offsets) key = (key ^ static_cast<std::uint64_t>(n)) * 0x9e3779b97f4a7c15ULL + 1;
    for (std::int64_t n : box.sizes) key = (key ^ static_cast<std::uint64_t>(n)) * 0xc2b2ae3d27d4eb4fULL + 1;
    return key;
  }

  std::vector<Box> boxes_;
  std::vector<std::uint32_t> first_;                          ///< the first rank that has each
  std::map<std::size_t, std::vector<std::uint32_t>> others_;  ///< further ones, of those that several have
  bool ascending_ = true;
  std::unordered_multimap<std::uint64_t, std::size_t> by_key_;  ///< once they do not ascend
  std::size_t indexed_ = 0;
};

class Merging {
 public:
  explicit Merging(const std::vector<LocalPlan>& ranks) : ranks_(ranks) { plan_.load.resize(ranks.size()); }

  Plan run() {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) add_rank(rank);
    for (std::size_t i = 0; i < plan_.items.size(); ++i) check(i);
    give_out();
    return std::move(plan_);
  }

 private:
  /// Ranks mostly list the same items in the same order.
  std::size_t place_of(const DcpItem& item, std::size_t guess) {
    if (guess < plan_.items.size() && plan_.items[guess].item.name == item.name) return guess;
    auto [at, fresh] = places_.try_emplace(item.name, plan_.items.size());
    if (fresh) {
      plan_.items.push_back({item, {}, {}});
      boxes_.emplace_back();
    }
    return at->second;
  }

  void add_rank(std::uint32_t rank) {
    const std::vector<LocalItem>& items = ranks_[rank].items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::size_t place = place_of(items[i].item, i);
      Boxes& boxes = boxes_[place];
      if (!boxes.empty()) compare(plan_.items[place].item, boxes.first_rank(0), items[i].item, rank);
      boxes.add(items[i].box, rank);
    }
  }

  static std::string kind_of(const DcpItem& item) {
    if (!item.is_tensor) return "a value that is no tensor";
    return std::string(core::name(item.dtype)) + " " + core::to_list(item.shape);
  }

  static void compare(const DcpItem& a, std::uint32_t rank_a, const DcpItem& b, std::uint32_t rank_b) {
    if (a.is_tensor == b.is_tensor && a.dtype == b.dtype && a.shape == b.shape) return;
    throw Error(ErrorCode::value, quote(a.name) + ": rank " + std::to_string(rank_b) + " has " + kind_of(b) +
                                      " where rank " + std::to_string(rank_a) + " has " + kind_of(a));
  }

  static std::string ranks_text(const Boxes& boxes) {
    constexpr std::size_t kMost = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(kMost, boxes.size()); ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(boxes.first_rank(i));
    }
    return "the pieces of rank " + text + (boxes.size() > kMost ? ", ..." : "");
  }

  void check(std::size_t i) {
    const DcpItem& item = plan_.items[i].item;
    if (!item.is_tensor) return;
    boxes_[i].drop_empty(item.shape);
    try {
      detail::check_tiling(item.shape, boxes_[i].boxes());
    } catch (const Error& error) {
      throw Error(ErrorCode::value, quote(item.name) + " (" + ranks_text(boxes_[i]) + "): " + error.message());
    }
  }

  /// What one rank alone has is its own; then the largest of the rest, each to who has the least to write.
  void give_out() {
    std::vector<std::pair<std::size_t, std::size_t>> shared;
    for (std::size_t i = 0; i < plan_.items.size(); ++i) {
      PlannedItem& planned = plan_.items[i];
      Boxes& boxes = boxes_[i];
      planned.owners.resize(boxes.size());
      planned.replicas.resize(boxes.size());
      for (std::size_t k = 0; k < boxes.size(); ++k) {
        planned.replicas[k] = static_cast<std::uint32_t>(boxes.ranks_of(k));
        Box& box = boxes.boxes()[k];
        if (planned.item.is_tensor) planned.item.chunks.add_box(box.offsets.span(), box.sizes.span());
        bool is_own = planned.replicas[k] == 1 || !planned.item.is_tensor;
        if (!is_own) shared.emplace_back(i, k);
        if (is_own) give(planned, k, boxes.first_rank(k));
      }
    }
    std::stable_sort(shared.begin(), shared.end(), [&](const auto& a, const auto& b) {
      return bytes_at(a.first, a.second) > bytes_at(b.first, b.second);
    });
    for (const auto& [i, k] : shared) {
      const std::vector<std::uint32_t> ranks = boxes_[i].ranks(k);
      give(plan_.items[i], k, *std::min_element(ranks.begin(), ranks.end(), [&](std::uint32_t a, std::uint32_t b) {
             return plan_.load[a] < plan_.load[b];
           }));
    }
  }

  std::uint64_t bytes_at(std::size_t i, std::size_t k) const {
    return bytes_of(plan_.items[i].item.dtype, plan_.items[i].item.chunks.sizes(k));
  }
  void give(PlannedItem& planned, std::size_t k, std::uint32_t rank) {
    planned.owners[k] = rank;
    if (planned.item.is_tensor) plan_.load[rank] += bytes_of(planned.item.dtype, planned.item.chunks.sizes(k));
  }

  const std::vector<LocalPlan>& ranks_;
  Plan plan_;
  std::vector<Boxes> boxes_;  ///< of each item; of an object one, which is empty
  std::unordered_map<std::string, std::size_t> places_;
};

}  // namespace

Piece shard(const core::Shape& global_shape, std::int64_t dim, int rank, int ranks) {
  auto size = static_cast<std::int64_t>(global_shape.size());
  std::int64_t at = dim < 0 ? dim + size : dim;
  bool fits = at >= 0 && at < size && rank >= 0 && rank < ranks;
  if (!fits) {
    throw Error(ErrorCode::value, "no piece " + std::to_string(rank) + " of " + std::to_string(ranks) +
                                      " along dimension " + std::to_string(dim) + " of " + core::to_list(global_shape));
  }
  Box box = detail::shard_box(global_shape, static_cast<std::size_t>(at), static_cast<std::uint64_t>(rank),
                              static_cast<std::uint64_t>(ranks));
  return {global_shape, std::move(box.offsets), std::move(box.sizes)};
}

LocalPlan local_plan(const Value& state, const Pieces& pieces) {
  detail::FlatTree flat = detail::flatten_tree(state);
  if (!flat.obstacles.empty()) {
    throw Error(ErrorCode::unsupported, "a distributed checkpoint cannot hold " + describe(flat.obstacles.front()));
  }
  LocalPlan plan;
  std::size_t used = 0;
  for (detail::FlatItem& item : flat.items) {
    LocalItem local;
    local.item.name = std::move(item.name);
    local.item.path = std::move(item.path);
    local.item.is_tensor = item.value.is(Value::Kind::tensor);
    core::with_context(quote(local.item.name), [&] {
      if (!local.item.is_tensor) return;
      const Entry& entry = item.value.as_entry();
      auto piece = pieces.find(local.item.name);
      used += piece == pieces.end() ? 0 : 1;
      local.item.dtype = entry.dtype;
      local.item.requires_grad = entry.requires_grad;
      local.item.shape = piece == pieces.end() ? entry.shape : piece->second.global_shape;
      local.box = piece == pieces.end() ? Box{core::Shape(entry.shape.size(), 0), entry.shape}
                                        : box_of(entry.shape, piece->second);
    });
    plan.items.push_back(std::move(local));
    plan.values.push_back(std::move(item.value));
  }
  if (used < pieces.size()) throw Error(ErrorCode::value, "a piece is named for which there is no tensor");
  return plan;
}

std::string encode_plan(const LocalPlan& plan) {
  MessageWriter out;
  out.number(plan.items.size());
  std::string_view before;
  for (const LocalItem& local : plan.items) {
    const DcpItem& item = local.item;
    std::size_t same = common_start(before, item.name);
    out.number(same);
    out.text(std::string_view(item.name).substr(same));
    before = item.name;
    write_path(out, item);
    out.number((item.is_tensor ? 1U : 0U) + (item.requires_grad ? 2U : 0U));
    if (!item.is_tensor) continue;
    out.number(static_cast<std::uint64_t>(item.dtype));
    out.number(item.shape.size());
    write_shape(out, item.shape);
    write_shape(out, local.box.offsets);
    write_shape(out, local.box.sizes);
  }
  return out.take();
}

LocalPlan decode_plan(std::string_view text) {
  MessageReader in(text);
  LocalPlan plan;
  plan.items.resize(in.count());
  std::string before;
  for (LocalItem& local : plan.items) {
    DcpItem& item = local.item;
    std::uint64_t same = in.number();
    if (same > before.size()) throw Error(ErrorCode::corrupt, "a message of another rank is not one");
    item.name = before.substr(0, same) + std::string(in.text());
    before = item.name;
    read_path(in, item);
    std::uint64_t flags = in.number();
    item.is_tensor = (flags & 1) != 0;
    item.requires_grad = (flags & 2) != 0;
    if (!item.is_tensor) continue;
    std::uint64_t dtype = in.number();
    std::uint64_t rank = in.count();
    if (dtype >= static_cast<std::uint64_t>(core::kDTypeCount)) {
      throw Error(ErrorCode::corrupt, "a message of another rank names no dtype");
    }
    item.dtype = static_cast<core::DType>(dtype);
    item.shape = read_shape(in, rank);
    local.box.offsets = read_shape(in, rank);
    local.box.sizes = read_shape(in, rank);
  }
  return plan;
}

Plan merge_plans(const std::vector<LocalPlan>& ranks) {
  return Merging(ranks).run();
}

}  // namespace ckpt::dist
