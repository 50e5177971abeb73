#pragma once
// NodeTable: which number a node has in one walk of the graph. Open addressing; small graphs allocate nothing.
// Thread safety: none while it grows; find() from several threads afterwards.
// Use: auto [number, is_new] = table.insert(node); table.find(node) == number;

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "libcore/tensor/inline_vector.h"

namespace core {

class Node;

class NodeTable {
 public:
  NodeTable() { places_.resize(kSmall); }

  /// The node's number: its own, or the next free one (0, 1, 2 ...) when it is new.
  std::pair<std::uint32_t, bool> insert(Node* node) {
    Place& place = place_of(node);
    if (place.node != nullptr) return {place.number, false};
    place = {node, size_++};
    std::uint32_t number = place.number;
    if (size_ * 2 > places_.size()) grow();
    return {number, true};
  }
  /// REQUIRES: insert(node) was called.
  std::uint32_t find(Node* node) { return place_of(node).number; }
  bool contains(Node* node) { return place_of(node).node != nullptr; }

 private:
  static constexpr std::size_t kSmall = 64;
  struct Place {
    Node* node = nullptr;
    std::uint32_t number = 0;
  };

  Place& place_of(Node* node) {
    const std::size_t mask = places_.size() - 1;
    // Nodes are 64-byte aligned; the product spreads what is left over the upper bits.
    auto key = reinterpret_cast<std::uintptr_t>(node) >> 6;
    std::size_t at = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ull) >> 32) & mask;
    while (places_[at].node != nullptr && places_[at].node != node) at = (at + 1) & mask;
    return places_[at];
  }
  void grow() {
    InlineVector<Place, kSmall> old(std::move(places_));
    places_.resize(old.size() * 2);
    for (const Place& place : old) {
      if (place.node != nullptr) place_of(place.node) = place;
    }
  }

  InlineVector<Place, kSmall> places_;
  std::uint32_t size_ = 0;
};

}  // namespace core
