#pragma once
// The proved name maps of golden/zoo/maps with the model whose shapes each goes by and the rule packs that are to
// reproduce it. Use: if (auto map = test::read_map(file)) for (const test::MapPair& pair : map->pairs) ...

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/analyze/key_list.h"

namespace test {

struct MapPair {
  std::string from;
  std::string to;
  std::string operation;  ///< "", "transpose", "reshape", "rows a b"
};

struct MapFile {
  std::string name;
  std::vector<MapPair> pairs;   ///< those that keep their name too
  ckpt::KeyList model;          ///< the model whose shapes it goes by
  std::string model_file;       ///< relative to the golden folder
  bool model_is_source = true;  ///< the side of the pairs that has the names of that model
  std::vector<std::string> packs;
  bool backwards = false;  ///< the packs turned round lead from source to target
};

/// Nothing for a map that no line of the table names or whose model is not here.
std::optional<MapFile> read_map(const std::filesystem::path& file);

/// The shape on the other side of a pair without rows: reversed, or with dimensions of 1 added or taken away.
core::Shape other_shape(const core::Shape& shape, const std::string& operation);

}  // namespace test
