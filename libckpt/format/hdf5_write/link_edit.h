#pragma once
// What has to be done to the links of an HDF5 file so that its datasets lie at other paths: groups move as a whole.
// Thread safety: pure. Use: std::optional<LinkEdit> edit = plan_link_edit(old_plan, new_plan);

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/format/hdf5_write/hdf5_tree.h"

namespace ckpt::detail {

/// Paths from the top group, in this order: groups to be made, links to be moved, groups that are empty then and go.
struct LinkEdit {
  std::vector<std::string> made;
  std::vector<std::pair<std::string, std::string>> moved;
  std::vector<std::string> removed;

  bool is_empty() const { return made.empty() && moved.empty() && removed.empty(); }
};

/// nullopt where datasets change in more than their path, and where a link would have to move to a place that another
/// one leaves. REQUIRES: the i-th dataset of both plans is the same one, and no plan has links to datasets.
std::optional<LinkEdit> plan_link_edit(const Hdf5Plan& old_plan, const Hdf5Plan& new_plan);

/// Superblock and metadata of the file of `plan` with those links; nullopt where that cannot be had
/// (Hdf5Describer::relink).
std::optional<Hdf5Image> relink_hdf5(const Hdf5Plan& plan, core::Bytes superblock, core::Bytes metadata,
                                     const LinkEdit& edit);

}  // namespace ckpt::detail
