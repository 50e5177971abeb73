#include "libckpt/dist/plan.h"

#include <algorithm>
#include <numeric>
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

/// One box of a tensor and the ranks that have it.
struct Candidate {
  std::size_t item;
  Box box;
  std::vector<std::uint32_t> ranks;
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
      std::vector<Candidate>& boxes = boxes_[place];
      std::uint32_t first = boxes.empty() ? rank : boxes.front().ranks.front();
      if (!boxes.empty()) compare(plan_.items[place].item, first, items[i].item, rank);
      auto same = [&](const Candidate& known) {
        return known.box.offsets == items[i].box.offsets && known.box.sizes == items[i].box.sizes;
      };
      // The same box is most often that of the rank before, or of the first.
      bool last = !boxes.empty() && same(boxes.back());
      auto found = last ? boxes.end() - 1 : find_box(boxes, place, items[i].box, same);
      if (found != boxes.end()) {
        found->ranks.push_back(rank);
      } else {
        boxes.push_back({place, items[i].box, {rank}});
      }
    }
  }

  /// Boxes that begin at the same place are few; the others are told apart by a hash of that place.
  template <class Same>
  std::vector<Candidate>::iterator find_box(std::vector<Candidate>& boxes, std::size_t place, const Box& box,
                                            const Same& same) {
    std::uint64_t key = place * 0x9e3779b97f4a7c15ULL;
    for (std::int64_t n : box.offsets) key = (key ^ static_cast<std::uint64_t>(n)) * 0x9e3779b97f4a7c15ULL + 1;
    for (std::int64_t n : box.sizes) key = (key ^ static_cast<std::uint64_t>(n)) * 0xc2b2ae3d27d4eb4fULL + 1;
    auto [at, fresh] = known_boxes_.try_emplace(key, boxes.size());
    if (fresh) return boxes.end();
    auto found = at->second < boxes.size() ? boxes.begin() + static_cast<std::ptrdiff_t>(at->second) : boxes.end();
    if (found != boxes.end() && same(*found)) return found;
    return std::find_if(boxes.begin(), boxes.end(), same);
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

  static std::string ranks_text(const std::vector<Candidate>& boxes) {
    constexpr std::size_t kMost = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(kMost, boxes.size()); ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(boxes[i].ranks.front());
    }
    return "the pieces of rank " + text + (boxes.size() > kMost ? ", ..." : "");
  }

  /// Boxes without elements are not written, unless the tensor has none.
  void check(std::size_t i) {
    PlannedItem& planned = plan_.items[i];
    if (!planned.item.is_tensor) return;
    std::vector<Candidate>& boxes = boxes_[i];
    if (numel(planned.item.shape) == 0) {
      boxes.resize(1);
      boxes[0].box = {core::Shape(planned.item.shape.size(), 0), planned.item.shape};
      return;
    }
    std::erase_if(boxes, [](const Candidate& box) { return numel(box.box.sizes) == 0; });
    std::vector<Box> all;
    all.reserve(boxes.size());
    for (const Candidate& box : boxes) all.push_back(box.box);
    try {
      detail::check_tiling(planned.item.shape, all);
    } catch (const Error& error) {
      throw Error(ErrorCode::value, quote(planned.item.name) + " (" + ranks_text(boxes) + "): " + error.message());
    }
  }

  /// What one rank alone has is its own; then the largest of the rest, each to who has the least to write.
  void give_out() {
    std::vector<std::pair<std::size_t, std::size_t>> shared;
    for (std::size_t i = 0; i < plan_.items.size(); ++i) {
      PlannedItem& planned = plan_.items[i];
      planned.owners.resize(boxes_[i].size());
      for (std::size_t k = 0; k < boxes_[i].size(); ++k) {
        const Candidate& box = boxes_[i][k];
        planned.replicas.push_back(static_cast<std::uint32_t>(box.ranks.size()));
        if (planned.item.is_tensor) planned.item.chunks.push_back({box.box.offsets, box.box.sizes, {}});
        bool is_own = box.ranks.size() == 1 || !planned.item.is_tensor;
        if (!is_own) shared.emplace_back(i, k);
        if (is_own) give(planned, k, box.ranks.front());
      }
    }
    std::stable_sort(shared.begin(), shared.end(), [&](const auto& a, const auto& b) {
      return bytes_at(a.first, a.second) > bytes_at(b.first, b.second);
    });
    for (const auto& [i, k] : shared) {
      const std::vector<std::uint32_t>& ranks = boxes_[i][k].ranks;
      give(plan_.items[i], k, *std::min_element(ranks.begin(), ranks.end(), [&](std::uint32_t a, std::uint32_t b) {
             return plan_.load[a] < plan_.load[b];
           }));
    }
  }

  std::uint64_t bytes_at(std::size_t i, std::size_t k) const {
    return bytes_of(plan_.items[i].item.dtype, boxes_[i][k].box.sizes);
  }
  void give(PlannedItem& planned, std::size_t k, std::uint32_t rank) {
    planned.owners[k] = rank;
    if (planned.item.is_tensor) plan_.load[rank] += bytes_of(planned.item.dtype, planned.item.chunks[k].sizes);
  }

  const std::vector<LocalPlan>& ranks_;
  Plan plan_;
  std::vector<std::vector<Candidate>> boxes_;  ///< of each item; of an object one, which is empty
  std::unordered_map<std::string, std::size_t> places_;
  std::unordered_map<std::uint64_t, std::size_t> known_boxes_;
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
