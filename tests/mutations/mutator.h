#pragma once
// Mutator: valid files changed at random as damage and malice change them: flipped bits, lengths that claim nothing or
// everything, ends cut off, parts doubled, moved and taken from other files. A change is made by its number alone, so
// that a failure can be made again.
// Thread safety: immutable. Use: Mutator mutator(seeds); std::string bytes = mutator.make(17).bytes;

#include <cstdint>
#include <string>
#include <vector>

namespace test {

/// A small valid checkpoint: one file, or those of a folder.
struct Seed {
  std::string name;  ///< for messages
  struct File {
    std::string name;
    std::string bytes;
  };
  std::vector<File> files;
  bool is_folder = false;     ///< the folder is what is opened
  std::string opened;         ///< else this file of it
  bool needs_helper = false;  ///< to be read, or to be written again: takes ten times as long
};

/// Files of every format, made by our writers; and by real libraries, where the golden data is there.
std::vector<Seed> own_seeds();
std::vector<Seed> golden_seeds();

struct Mutation {
  const Seed* seed = nullptr;
  std::size_t file = 0;  ///< the one that was changed
  std::string bytes;     ///< what it is now
};

class Mutator {
 public:
  explicit Mutator(std::vector<Seed> seeds) : seeds_(std::move(seeds)) {}
  Mutation make(std::uint64_t number) const;
  std::size_t seeds() const { return seeds_.size(); }

 private:
  const Seed& choose(std::uint64_t number) const;

  std::vector<Seed> seeds_;
};

}  // namespace test
