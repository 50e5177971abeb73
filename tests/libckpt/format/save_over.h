#pragma once
// Saves over the file that a checkpoint was read from, and sees how it was done. Thread safety: pure functions.
// Use: test::SavedOver out = test::save_over(ckpt::strip_prefix(ckpt::open(path)), path);

#include <sys/stat.h>

#include <filesystem>

#include "libckpt/format/in_place.h"
#include "libckpt/open_save.h"

namespace test {

struct SavedOver {
  ckpt::Report report;
  bool copied = false;     ///< the file is a new one
  bool announced = false;  ///< as an edit that does not write the whole file
};

inline SavedOver save_over(const ckpt::Checkpoint& edited, const std::filesystem::path& path,
                           ckpt::SaveOptions options = {}) {
  SavedOver out;
  struct stat before {};
  struct stat after {};
  ::stat(path.c_str(), &before);
  options.in_place = true;
  out.announced = ckpt::plan_in_place(edited, path, options).has_value();
  options.report = &out.report;
  ckpt::save(edited, path, options);
  ::stat(path.c_str(), &after);
  out.copied = before.st_ino != after.st_ino;
  return out;
}

}  // namespace test
