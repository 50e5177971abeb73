#pragma once
// A word in every module and every parameter from which the memory around it shows where they stand: by it the first
// walk over a module finds the members that its members() forgot (members.h). Costs eight bytes each.
// Thread safety: as the object that holds it. For libcore/module alone.
// Use: core::detail::AddressMark<0x5ca1ab1e> mark;

#include <cstdint>
#include <cstring>

namespace core::detail {

/// Kind: what tells the marks of modules from those of parameters.
template <std::uint64_t Kind>
class AddressMark {
 public:
  AddressMark() { set(); }
  AddressMark(const AddressMark&) { set(); }
  AddressMark& operator=(const AddressMark&) { return *this; }
  /// Wiped in a way that a compiler must not leave out: the place may hold something else next.
  ~AddressMark() { *static_cast<volatile std::uint64_t*>(&word_) = 0; }

  /// Whether the eight bytes there are a mark of this kind.
  static bool stands_at(const void* place) {
    std::uint64_t word;
    std::memcpy(&word, place, sizeof word);
    return word == word_of(place);
  }

 private:
  void set() { word_ = word_of(this); }
  static std::uint64_t word_of(const void* place) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(place)) ^ Kind;
  }
  std::uint64_t word_;
};

using ModuleMark = AddressMark<0x9e3779b97f4a7c15>;
using ParameterMark = AddressMark<0xc2b2ae3d27d4eb4f>;

}  // namespace core::detail
