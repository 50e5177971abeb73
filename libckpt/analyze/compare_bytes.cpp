#include "libckpt/analyze/compare_bytes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "libckpt/analyze/compare_loops.h"
#include "libckpt/analyze/numbers.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kUnitElements = 1ULL << 20;   // what a thread takes at once
constexpr std::uint64_t kPieceElements = 1ULL << 16;  // read and compared at once
constexpr std::size_t kComparedBlock = 2048;          // elements turned into numbers at once; two numbers each at most

std::uint64_t width_of(const Entry& entry) {
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(core::bit_width(entry.dtype)) / 8, 1);
}

/// A run of elements of one pair.
struct Unit {
  std::size_t pair;
  std::uint64_t first;
  std::uint64_t count;
};

/// A piece of an entry: its bytes where they lie in memory, else a copy.
class Piece {
 public:
  explicit Piece(const Entry& entry) : entry_(entry), width_(width_of(entry)) {}

  Bytes read(std::uint64_t first, std::uint64_t count) {
    std::uint64_t length = count * width_;
    bool flags = entry_.conjugate || entry_.negative;
    Bytes memory = flags ? Bytes() : entry_.bytes->memory();
    if (!memory.empty()) return memory.subspan(first * width_, length);
    if (buffer_ == nullptr) buffer_ = std::make_unique_for_overwrite<std::byte[]>(kPieceElements * width_);
    MutableBytes out(buffer_.get(), length);
    entry_.bytes->read(first * width_, out);
    if (flags) resolve_flags(entry_, out);
    return out;
  }

 private:
  const Entry& entry_;
  std::uint64_t width_;
  std::unique_ptr<std::byte[]> buffer_;
};

class Comparer {
 public:
  Comparer(const ValuePair& pair, const Tolerance& tolerance)
      : a_(*pair.a),
        b_(*pair.b),
        tolerance_(tolerance),
        parts_(a_.blocks ? 0 : numbers_per_element(a_.dtype)),
        same_type_(a_.dtype == b_.dtype) {}

  ValueDifference compare(const Unit& unit) {
    Piece left(a_);
    Piece right(b_);
    ValueDifference out;
    out.numbers = parts_ > 0;
    std::vector<Unit> equal;
    for (std::uint64_t at = 0; at < unit.count; at += kPieceElements) {
      Unit piece{unit.pair, unit.first + at, std::min(kPieceElements, unit.count - at)};
      bool same = compare_piece(left.read(piece.first, piece.count), right.read(piece.first, piece.count), out);
      if (same) equal.push_back(piece);
    }
    if (out.differing == 0) return out;
    for (const Unit& piece : equal) out.merge(products(piece));
    return out;
  }

  /// What a run of equal values adds to the products, which compare() leaves out unless something differs.
  ValueDifference products(const Unit& unit) {
    Piece left(a_);
    ValueDifference out;
    out.numbers = parts_ > 0;
    for (std::uint64_t at = 0; at < unit.count && parts_ > 0; at += kPieceElements) {
      Bytes bytes = left.read(unit.first + at, std::min(kPieceElements, unit.count - at));
      for_each_block(bytes, width_of(a_), [&](Bytes block) {
        double numbers[2 * kComparedBlock];
        std::span<const double> values = numbers_of(a_.dtype, block, numbers);
        out.dot += sum_of_squares(values);
        out.nans_a += count_nans(values, parts_);
      });
    }
    out.squares_a = out.squares_b = out.dot;
    out.nans_b = out.nans_a;
    return out;
  }

 private:
  template <class Body>
  static void for_each_block(Bytes bytes, std::uint64_t width, Body body) {
    std::size_t step = kComparedBlock * width;
    for (std::size_t at = 0; at < bytes.size(); at += step) body(bytes.subspan(at, std::min(step, bytes.size() - at)));
  }

  std::span<double> numbers_of(core::DType dtype, Bytes bytes, std::span<double> buffer) const {
    std::span<double> out = buffer.first(bytes.size() / static_cast<std::size_t>(core::bit_width(dtype) / 8) * parts_);
    to_numbers(dtype, bytes, out);
    return out;
  }

  /// True when all bits are equal; nothing else is known then.
  bool compare_piece(Bytes x, Bytes y, ValueDifference& out) {
    if (same_type_ && std::memcmp(x.data(), y.data(), x.size()) == 0) return true;
    if (same_type_) out.differing += count_differing(x, y, width_of(a_));
    if (parts_ == 0) {
      out.beyond = out.differing;
      return false;
    }
    std::uint64_t width_b = width_of(b_);
    std::size_t done = 0;
    for_each_block(x, width_of(a_), [&](Bytes block) {
      std::size_t count = block.size() / width_of(a_);
      compare_block(block, y.subspan(done * width_b, count * width_b), out);
      done += count;
    });
    return false;
  }

  void compare_block(Bytes x, Bytes y, ValueDifference& out) {
    double buffer_a[2 * kComparedBlock];
    double buffer_b[2 * kComparedBlock];
    std::span<double> a = numbers_of(a_.dtype, x, buffer_a);
    std::span<double> b = numbers_of(b_.dtype, y, buffer_b);
    if (!same_type_) {
      ValueDifference exact;
      compare_numbers(a, b, parts_, {}, exact);
      out.differing += exact.beyond;
    }
    std::uint64_t beyond = out.beyond;
    compare_numbers(a, b, parts_, tolerance_, out);
    if (tolerance_.exact() && same_type_) out.beyond = beyond + count_differing(x, y, width_of(a_));
    if (same_type_ && parts_ == 1 && core::is_floating(a_.dtype)) {
      out.max_ulp = std::max(out.max_ulp, largest_ulp(x, y, width_of(a_), a, b));
    }
  }

  const Entry& a_;
  const Entry& b_;
  const Tolerance& tolerance_;
  unsigned parts_;
  bool same_type_;
};

std::vector<Unit> units_of(const std::vector<ValuePair>& pairs, const std::vector<std::size_t>& same) {
  std::vector<Unit> units;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (same[i] != i) continue;
    std::uint64_t count = pairs[i].a->byte_size() / width_of(*pairs[i].a);
    for (std::uint64_t at = 0; at < count; at += kUnitElements) {
      units.push_back({i, at, std::min(kUnitElements, count - at)});
    }
  }
  return units;
}

/// For each pair the first one that reads the same.
std::vector<std::size_t> first_alike(const std::vector<ValuePair>& pairs) {
  using Side = std::tuple<const ByteSource*, core::DType, bool, bool>;
  auto side = [](const Entry& e) { return Side(e.bytes.get(), e.dtype, e.conjugate, e.negative); };
  std::map<std::pair<Side, Side>, std::size_t> known;
  std::vector<std::size_t> out;
  for (const ValuePair& pair : pairs) {
    out.push_back(known.try_emplace({side(*pair.a), side(*pair.b)}, out.size()).first->second);
  }
  return out;
}

void require_unchanged(const std::vector<ValuePair>& pairs) {
  for (const ValuePair& pair : pairs) {
    core::with_context(core::quote(pair.name), [&] {
      pair.a->bytes->require_unchanged();
      pair.b->bytes->require_unchanged();
    });
  }
}

}  // namespace

void ValueDifference::merge(const ValueDifference& other) {
  differing += other.differing;
  beyond += other.beyond;
  numbers |= other.numbers;
  max_difference = std::max(max_difference, other.max_difference);
  max_relative = std::max(max_relative, other.max_relative);
  max_ulp = std::max(max_ulp, other.max_ulp);
  dot += other.dot;
  squares_a += other.squares_a;
  squares_b += other.squares_b;
  squares_difference += other.squares_difference;
  nans_a += other.nans_a;
  nans_b += other.nans_b;
}

std::optional<double> ValueDifference::cosine() const {
  double size = std::sqrt(squares_a) * std::sqrt(squares_b);
  if (!numbers || !(size > 0)) return std::nullopt;
  return std::clamp(dot / size, -1.0, 1.0);
}

std::optional<double> ValueDifference::relative_norm() const {
  if (!numbers || !(squares_a > 0)) return std::nullopt;
  return std::sqrt(squares_difference) / std::sqrt(squares_a);
}

bool are_comparable(const Entry& a, const Entry& b) {
  if (a.bytes == nullptr || b.bytes == nullptr || !(a.shape == b.shape)) return false;
  if (a.blocks.has_value() || b.blocks.has_value()) return type_name(a) == type_name(b);
  if (a.dtype == b.dtype) return a.byte_size() == b.byte_size();
  unsigned parts = numbers_per_element(a.dtype);
  return parts > 0 && parts == numbers_per_element(b.dtype);
}

std::vector<ValueDifference> compare_values(const std::vector<ValuePair>& pairs, const CompareOptions& options) {
  std::vector<std::size_t> same = first_alike(pairs);
  std::vector<Unit> units = units_of(pairs, same);
  std::vector<ValueDifference> parts(units.size());
  std::mutex mutex;
  auto over_units = [&](auto body) {
    parallel_for(units.size(), options.threads, [&](std::size_t u) {
      const ValuePair& pair = pairs[units[u].pair];
      core::with_context(core::quote(pair.name), [&] { body(u, pair); });
    });
  };
  over_units([&](std::size_t u, const ValuePair& pair) {
    parts[u] = Comparer(pair, options.tolerance).compare(units[u]);
    if (!options.tick) return;
    std::lock_guard lock(mutex);
    options.tick(units[u].count * width_of(*pair.a));
  });
  std::vector<ValueDifference> out(pairs.size());
  for (std::size_t u = 0; u < units.size(); ++u) out[units[u].pair].merge(parts[u]);
  // Where some units differ, the equal ones still belong to the cosine.
  over_units([&](std::size_t u, const ValuePair& pair) {
    const ValueDifference& whole = out[units[u].pair];
    bool wanted = whole.numbers && whole.differing > 0 && parts[u].differing == 0 && pair.a->dtype == pair.b->dtype;
    parts[u] = wanted ? Comparer(pair, options.tolerance).products(units[u]) : ValueDifference();
  });
  for (std::size_t u = 0; u < units.size(); ++u) out[units[u].pair].merge(parts[u]);
  require_unchanged(pairs);
  for (std::size_t i = 0; i < pairs.size(); ++i) out[i] = out[same[i]];
  return out;
}

}  // namespace ckpt::detail
