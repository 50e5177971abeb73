#pragma once
// What the files of a checkpoint of many ranks are: how a rank writes its own, and what rank 0 writes when all are
// there. Internal to libckpt/dist. Thread safety: one owner. Use: std::unique_ptr<Layout> layout = layout_named("dcp");
// std::string facts = layout->write_part(work);

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "libckpt/dist/plan.h"
#include "libckpt/options.h"

namespace ckpt::dist {

/// What one rank has to do.
struct PartWork {
  const Plan& plan;
  const LocalPlan& local;
  std::uint32_t rank;
  std::filesystem::path folder;  ///< the hidden one
  std::string save_id;
  ckpt::SaveOptions write;
};

class Layout {
 public:
  virtual ~Layout() = default;
  /// Throws for a plan that it cannot hold.
  virtual void check(const Plan& plan) const = 0;
  /// Writes what the rank owns, durable. Returns what rank 0 must know of it.
  virtual std::string write_part(const PartWork& work) const = 0;
  /// From what all ranks returned, by rank 0. Returns the bytes of all files.
  virtual std::uint64_t write_index(const PartWork& work, const std::vector<std::string>& facts) const = 0;
  /// Whether a folder that it may replace can hold a file of this name.
  virtual bool knows(std::string_view name) const = 0;
};

/// Error(usage) naming the layouts for another name.
std::unique_ptr<Layout> layout_named(const std::string& name);

}  // namespace ckpt::dist
