#include <cstdio>

#include "tests/faults/trials.h"

namespace test::faults {

void Tally::add_violation(const std::string& group, const std::string& faults, const std::string& text) {
  Cell& cell = cells_[{faults, group}];
  if (cell.violations++ < shown_) std::fprintf(stderr, "violation: %s: %s\n", faults.c_str(), text.c_str());
}

void Tally::print() const {
  for (const auto& [place, cell] : cells_) {
    std::printf("%s|%s|%lu|%lu\n", place.first.c_str(), place.second.c_str(), cell.points, cell.violations);
  }
  unsigned long cuts = 0;
  unsigned long wrong = 0;
  for (const auto& [place, cell] : cells_) {
    if (!place.first.starts_with("power cut")) continue;
    cuts += cell.points;
    wrong += cell.violations;
  }
  for (const std::string& note : notes_) std::printf("%s\n", note.c_str());
  if (cuts > 0) std::printf("power-cut states tried: %lu, violations: %lu\n", cuts, wrong);
  if (stranded_ > 0)
    std::printf("states from which whole shards that no index names stay for ckpt doctor: %lu\n", stranded_);
  std::printf("points tried: %lu, violations: %lu\n", points(), violations());
}

unsigned long Tally::points() const {
  unsigned long sum = 0;
  for (const auto& [place, cell] : cells_) sum += cell.points;
  return sum;
}

unsigned long Tally::violations() const {
  unsigned long sum = 0;
  for (const auto& [place, cell] : cells_) sum += cell.violations;
  return sum;
}

}  // namespace test::faults
