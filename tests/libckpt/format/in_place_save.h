#pragma once
// Saves over the file that was read, and how that was done. Thread safety: one folder, one user.
// Use: test::InPlaceSave done = test::save_in_place(test::with_key(ckpt::open(path), "w", "v"), path);

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "libckpt/format/in_place.h"
#include "libckpt/open_save.h"

namespace test {

struct InPlaceSave {
  ckpt::Report report;
  bool copied = false;     ///< the name is now that of a new file
  bool announced = false;  ///< as one that writes a part alone
};

inline InPlaceSave save_in_place(const ckpt::Checkpoint& edited, const std::filesystem::path& path,
                                 ckpt::SaveOptions options = {}) {
  InPlaceSave out;
  struct stat before {};
  struct stat after {};
  ::stat(path.c_str(), &before);
  options.in_place = true;
  out.announced = ckpt::plan_in_place(edited, path, options).has_value();
  options.report = &out.report;
  ckpt::save(edited, path, options);
  ::stat(path.c_str(), &after);
  out.copied = before.st_ino != after.st_ino;
  EXPECT_EQ(out.announced, !out.copied);
  EXPECT_EQ(out.report.rung == "rewrite", out.copied) << out.report.rung;
  return out;
}

/// A key of the top under another name.
inline ckpt::Checkpoint with_key(const ckpt::Checkpoint& checkpoint, const std::string& old, const std::string& key) {
  ckpt::Dict dict = checkpoint.root.as_dict();
  for (auto& item : dict.items) {
    if (item.first.as_text() == old) item.first = ckpt::Value::text(key);
  }
  ckpt::Checkpoint out = checkpoint;
  out.root = ckpt::Value::dict(std::move(dict));
  return out;
}

inline InPlaceSave rename_in_place(const std::filesystem::path& path, const std::string& old, const std::string& key) {
  return save_in_place(with_key(ckpt::open(path), old, key), path);
}

}  // namespace test
