// Work that grows as it should and work that grows with the square, to show that the count tells them apart.
// Use: growth_planted table|search|front 10000

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

/// So many names, each looked up in a table.
std::size_t table(std::size_t count) {
  std::unordered_map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < count; ++i) ++seen["name" + std::to_string(i)];
  return seen.size();
}

/// So many numbers, each looked for in a list.
std::size_t search(std::size_t count) {
  std::vector<std::size_t> seen;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::find(seen.begin(), seen.end(), i) == seen.end()) seen.push_back(i);
  }
  return seen.size();
}

/// So many numbers, each put in front of the others: a function of the C library moves them.
std::size_t front(std::size_t count) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < count; ++i) all.insert(all.begin(), i);
  return all.front() + 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::string_view work = argv[1];
  std::size_t count = std::strtoull(argv[2], nullptr, 10);
  std::size_t done = work == "table" ? table(count) : work == "search" ? search(count) : front(count);
  return done == count ? 0 : 1;
}
