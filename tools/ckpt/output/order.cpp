#include "tools/ckpt/output/order.h"

#include <algorithm>
#include <numeric>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace cli {
namespace {

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

/// The run of digits at `at`.
std::string_view digits(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_decimal(text[end])) ++end;
  return text.substr(at, end - at);
}

/// The digits that count.
std::string_view value_of(std::string_view run) {
  std::size_t first = run.find_first_not_of('0');
  return first == std::string_view::npos ? run.substr(run.size()) : run.substr(first);
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_decimal(a[i]) || !is_decimal(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i;
      ++j;
      continue;
    }
    std::string_view run_a = digits(a, i);
    std::string_view run_b = digits(b, j);
    std::string_view value_a = value_of(run_a);
    std::string_view value_b = value_of(run_b);
    if (value_a.size() != value_b.size()) return value_a.size() < value_b.size();
    if (value_a != value_b) return value_a < value_b;
    if (run_a.size() != run_b.size()) return run_a.size() < run_b.size();
    i += run_a.size();
    j += run_b.size();
  }
  return a.size() - i < b.size() - j;
}

Order parse_order(const std::string& text) {
  static constexpr std::string_view kNames[] = {"file", "name", "size", "numel", "dtype"};
  auto found = std::find(std::begin(kNames), std::end(kNames), text);
  if (found != std::end(kNames)) return static_cast<Order>(found - std::begin(kNames));
  throw core::Error(core::ErrorCode::usage,
                    "--sort " + core::quote(text) + " is not an order; use file, name, size, numel or dtype");
}

std::vector<std::size_t> ordered(const Listing& listing, Order order) {
  std::vector<std::size_t> out(listing.tensors.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  auto entry = [&](std::size_t i) -> const ckpt::Entry& { return *listing.tensors[i].entry; };
  auto less = [&](std::size_t a, std::size_t b) {
    switch (order) {
      case Order::name:
        return natural_less(listing.tensors[a].name, listing.tensors[b].name);
      case Order::size:
        return entry(a).byte_size() > entry(b).byte_size();
      case Order::numel:
        return entry(a).numel() > entry(b).numel();
      case Order::dtype:
        return core::name(entry(a).dtype) < core::name(entry(b).dtype);
      default:
        return false;
    }
  };
  if (order != Order::file) std::stable_sort(out.begin(), out.end(), less);
  return out;
}

}  // namespace cli
