#include "libcore/ops/raw/turned_weights.h"

#include <array>
#include <cstdint>
#include <string>

#include "libcore/tensor/packed_weights.h"
#include "libcore/tensor/tensor_impl.h"

namespace core::raw {
namespace {

/// A weight that was met, by what is true of it while its bytes are the same.
struct Met {
  const StorageImpl* storage = nullptr;
  std::int64_t offset = 0, rows = 0, columns = 0;
  std::uint32_t writes = 0;
  bool operator==(const Met&) const = default;
};

struct MetWeights {
  struct Place {
    Met met;
    blocked::Bytes turned;  // null at first
  };
  std::uint64_t forgotten = 0;
  std::array<Place, 64> places;
};

thread_local MetWeights met_weights;

std::size_t place_of(const Met& met) {
  const auto address = reinterpret_cast<std::uintptr_t>(met.storage);
  return (address >> 6 ^ address >> 12 ^ static_cast<std::uintptr_t>(met.offset)) % 64;
}

blocked::Bytes turned_bytes(const Tensor& weight, const Met& met) {
  const std::string key = "turned " + std::to_string(met.rows) + " " + std::to_string(met.columns);
  return packed_weights::find_or_pack(weight, key, met.rows * met.columns, [&](float* to) {
    const auto* from = static_cast<const float*>(weight.raw_data());
    for (std::int64_t row = 0; row < met.rows; ++row) {
      for (std::int64_t column = 0; column < met.columns; ++column) to[column * met.rows + row] = *from++;
    }
  });
}

}  // namespace

const float* turned_weight(const Tensor& weight) {
  StorageImpl* storage = weight.storage().id();
  MetWeights& all = met_weights;
  if (const std::uint64_t now = packed_weights::forgotten(); all.forgotten != now) {
    all.places = {};
    all.forgotten = now;
  }
  const Met met{storage, weight.storage_offset(), weight.sizes()[0], weight.sizes()[1], storage->writes()};
  MetWeights::Place& place = all.places[place_of(met)];
  if (place.met != met) {
    place.met = met;
    place.turned = {};
    return nullptr;
  }
  if (!place.turned) {
    if (!packed_weights::may_keep(storage)) return nullptr;
    place.turned = turned_bytes(weight, met);
  }
  return place.turned->data();
}

}  // namespace core::raw
