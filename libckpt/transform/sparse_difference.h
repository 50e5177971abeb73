#pragma once
// Which values of the difference between two tensors stay, and by how much they grow: what merge needs to know of a
// whole tensor, found in passes over it. Internal to merge. Thread safety: immutable. Use:
// const Kept kept = values_by_chance(chance_key(0, "fc.weight", 0), 0.5, false, {}); bool stays = kept.has(0.25F, 7);

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

namespace ckpt::detail {

/// Calls its argument with the values of a difference in order, piece by piece, and where each piece begins.
using ForEachPiece = std::function<void(const std::function<void(std::uint64_t first, std::span<const float>)>&)>;

/// Size of a value as a number that grows with it.
inline std::uint32_t size_bits(float value) {
  return std::bit_cast<std::uint32_t>(std::abs(value));
}

/// Whether value `index` of the tensor of this key stays by chance.
bool stays_by_chance(std::uint64_t key, std::uint64_t index, double density);
/// The key of a tensor's chances: of the seed, the tensor's name and the number of the model.
std::uint64_t chance_key(std::uint64_t seed, std::string_view name, std::size_t model);

struct Kept {
  enum class By : std::uint8_t { all, none, size, chance };
  By by = By::all;
  std::uint32_t least = 0;                                        ///< size_bits() from which values stay
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();  ///< of those that are just as large, the first stay
  std::uint64_t key = 0;
  double density = 1;
  double scale = 1;  ///< factor of those that stay

  bool has(float value, std::uint64_t index) const {
    switch (by) {
      case By::all:
        return true;
      case By::none:
        return false;
      case By::size: {
        const std::uint32_t bits = size_bits(value);
        return bits > least || (bits == least && index < end);
      }
      case By::chance:
        return stays_by_chance(key, index, density);
    }
    return true;
  }
};

/// The largest `density` of `count` values, at least one; of equal ones the first. With `rescale` they get the sum of
/// all sizes.
Kept largest_values(std::uint64_t count, double density, bool rescale, const ForEachPiece& for_each_piece);
/// Each value with this chance.
Kept values_by_chance(std::uint64_t key, double density, bool rescale, const ForEachPiece& for_each_piece);

}  // namespace ckpt::detail
