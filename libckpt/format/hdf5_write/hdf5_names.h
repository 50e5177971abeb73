#pragma once
// Names of tensors as HDF5 paths and back. Dots become groups, so "module.fc.weight" lies at module/fc/weight below the
// top group; what HDF5 would change or refuse is escaped with a percent sign. The way back is a function of the path
// alone, so two names never share a path. FORMAT_NATIVE.md, "Paths", has the rules.
// Thread safety: pure functions. Use: Hdf5Path path = plan_hdf5_paths(names)[0];

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ckpt::detail {

/// Links from the top group to the dataset; the last one names the dataset, the others are groups.
using Hdf5Path = std::vector<std::string>;

/// One distinct path for every name, in the same order. A name that is also the beginning of another ("a" beside
/// "a.b"), and a name that occurs again, gets a marker behind its last link.
std::vector<Hdf5Path> plan_hdf5_paths(std::span<const std::string> names);

/// The name that a path of plan_hdf5_paths() came from.
std::string name_of_hdf5_path(const Hdf5Path& path);

/// True when reading the links with dots between them gives the name, so that no attribute has to say it.
bool path_shows_name(const Hdf5Path& path, std::string_view name);

}  // namespace ckpt::detail
