#include "libckpt/io/trusted_program.h"

#include <sys/stat.h>
#include <unistd.h>

namespace ckpt {
namespace {

bool is_trusted(const struct stat& status) {
  bool owner = status.st_uid == 0 || status.st_uid == ::geteuid();
  return owner && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

std::string program_fault(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "it does not exist";
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  if (::access(path.c_str(), X_OK) != 0) return "it may not be executed";
  if (!is_trusted(status)) return "it belongs to another user or may be written by others";
  struct stat folder {};
  if (::stat(path.parent_path().c_str(), &folder) != 0) return "its folder cannot be looked at";
  bool shared = (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (folder.st_mode & S_ISVTX) == 0;
  return shared ? "its folder may be written by others" : "";
}

}  // namespace ckpt
