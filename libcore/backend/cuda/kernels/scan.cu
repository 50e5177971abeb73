// Running sums and products along one dimension. Many lines that lie beside each other get a thread each. Otherwise a
// team walks a line in blocks, or, where lines are few and long, a piece of a line, after the total of each piece was
// taken. Floats run in double.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "libcore/backend/cuda/kernels/elements.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

template <class T>
using Running = std::conditional_t<std::is_floating_point_v<Computed<T>>, double, std::uint64_t>;

template <class T>
struct Lines {
  using State = Running<T>;
  T* out;
  const T* in;
  Indexer<2> first;
  std::int64_t length, out_step, in_step;
  bool is_product;

  CORE_HD State start() const { return is_product ? 1 : 0; }
  CORE_HD State join(State a, State b) const { return is_product ? a * b : a + b; }
  CORE_HD State load(std::int64_t at, std::int64_t i) const { return static_cast<State>(widen(in[at + i * in_step])); }
  CORE_HD void store(std::int64_t at, std::int64_t i, State value) const {
    out[at + i * out_step] = narrow<T>(static_cast<Computed<T>>(value));
  }
};

template <class T>
struct ScanByThread {
  Lines<T> lines;
  CORE_BODY void operator()(std::int64_t line) const {
    const auto at = lines.first(line);
    auto running = lines.start();
    for (std::int64_t i = 0; i < lines.length; ++i) {
      running = lines.join(running, lines.load(at[1], i));
      lines.store(at[0], i, running);
    }
  }
};

/// The total of each piece of a line: totals[line * pieces + piece].
template <class T>
struct PieceTotals {
  Lines<T> lines;
  std::int64_t pieces, piece_length;
  Running<T>* totals;
  CORE_BODY void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t line = row / pieces, begin = (row - line * pieces) * piece_length;
    const auto at = lines.first(line);
    const std::int64_t end = begin + piece_length < lines.length ? begin + piece_length : lines.length;
    auto total = lines.start();
    for (std::int64_t i = begin + team.lane(); i < end; i += team.size()) {
      total = lines.join(total, lines.load(at[1], i));
    }
    total = team.reduce(total, [this](Running<T> a, Running<T> b) { return lines.join(a, b); });
    if (team.lane() == 0) totals[row] = total;
  }
};

constexpr int kPerLane = 4;  // elements of a block for each lane

/// Shared memory: the block's elements, then a total for each lane.
template <class T>
struct ScanByTeam {
  using State = Running<T>;
  Lines<T> lines;
  std::int64_t pieces, piece_length;
  const State* totals;  // null where a line is one piece

  CORE_BODY void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t line = row / pieces, piece = row - line * pieces, begin = piece * piece_length;
    const auto at = lines.first(line);
    const std::int64_t end = begin + piece_length < lines.length ? begin + piece_length : lines.length;
    State before = before_piece(team, line, piece);
    const std::int64_t block = std::int64_t{team.size()} * kPerLane;
    for (std::int64_t i = begin; i < end; i += block) {
      const std::int64_t count = end - i < block ? end - i : block;
      before = scan_block(team, at, i, static_cast<int>(count), before);
    }
  }

  /// The total of the pieces before this one.
  CORE_BODY State before_piece(const Team& team, std::int64_t line, std::int64_t piece) const {
    State before = lines.start();
    if (pieces == 1) return before;
    for (std::int64_t k = team.lane(); k < piece; k += team.size()) {
      before = lines.join(before, totals[line * pieces + k]);
    }
    return team.reduce(before, [this](State a, State b) { return lines.join(a, b); });
  }

  /// Elements [first, first + count); gives the total up to and with them.
  CORE_BODY State scan_block(const Team& team, const Offsets<2>& at, std::int64_t first, int count,
                             State before) const {
    State* values = team.shared<State>();
    State* sums = values + team.size() * kPerLane;
    const int lane = team.lane(), size = team.size();
    for (int k = lane; k < size * kPerLane; k += size) {
      values[k] = k < count ? lines.load(at[1], first + k) : lines.start();
    }
    team.sync();
    State sum = lines.start();
    for (int k = 0; k < kPerLane; ++k) {
      sum = lines.join(sum, values[lane * kPerLane + k]);
      values[lane * kPerLane + k] = sum;
    }
    sums[lane] = sum;
    team.sync();
    for (int reach = 1; reach < size; reach *= 2) {
      const State other = lane >= reach ? sums[lane - reach] : lines.start();
      team.sync();
      if (lane >= reach) sums[lane] = lines.join(other, sums[lane]);
      team.sync();
    }
    for (int k = lane; k < count; k += size) {
      const int owner = k / kPerLane;
      const State start = owner > 0 ? lines.join(before, sums[owner - 1]) : before;
      lines.store(at[0], first + k, lines.join(start, values[k]));
    }
    // No barrier: the next block's lanes write the values that they alone have read, and sums after one.
    return lines.join(before, sums[size - 1]);
  }
};

template <class T, bool kProduct>
void scan_kernel(const ScanParams& p) {
  constexpr std::int64_t kEnoughTeams = 132 * 2, kEnoughThreads = 132 * 64, kShortLine = 16, kTeam = 256;
  using State = Running<T>;
  if (p.length == 0 || p.lines.numel == 0) return;
  const Lines<T> lines{static_cast<T*>(p.out),
                       static_cast<const T*>(p.in),
                       Indexer<2>(p.lines),
                       p.length,
                       p.out_step,
                       p.in_step,
                       kProduct};
  const bool beside = p.in_step != 1 && p.lines.strides[1][0] == 1;
  if (p.length <= kShortLine || (beside && p.lines.numel >= kEnoughThreads)) {
    return for_each(p.lines.numel, ScanByThread<T>{lines});
  }
  const std::int64_t row = std::min(divide_up(p.length, kPerLane), kTeam);
  const int lanes = team_size(row);
  const std::int64_t block = std::int64_t{lanes} * kPerLane;
  std::int64_t pieces = std::clamp<std::int64_t>(kEnoughTeams / p.lines.numel, 1, divide_up(p.length, 4 * block));
  const std::int64_t piece_length = divide_up(divide_up(p.length, pieces), block) * block;
  pieces = divide_up(p.length, piece_length);
  const Scratch totals(pieces > 1 ? static_cast<std::size_t>(pieces * p.lines.numel) * sizeof(State) : 0);
  if (pieces > 1) {
    for_each_row(p.lines.numel * pieces, row, PieceTotals<T>{lines, pieces, piece_length, totals.as<State>()});
  }
  for_each_row(p.lines.numel * pieces, row, static_cast<std::size_t>(block + lanes) * sizeof(State),
               ScanByTeam<T>{lines, pieces, piece_length, totals.as<State>()});
}

template <class... Ts>
void set_scans(ReductionTable& table) {
  (table.scan.set(ScanOp::cumsum, dtype_of<Ts>, scan_kernel<Ts, false>), ...);
  (table.scan.set(ScanOp::cumprod, dtype_of<Ts>, scan_kernel<Ts, true>), ...);
}

}  // namespace

void fill_scans(ReductionTable& table) {
  set_scans<std::int64_t, Half, BFloat16, float, double>(table);
}

}  // namespace core::CORE_KERNELS
