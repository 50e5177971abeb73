#pragma once
// Every open() and openat() of this program and the libraries linked into it goes through here (opened_files.cpp), so
// that a test can say what a file made them open.
// Thread safety: any thread. Use: watch_opens(dir.path()); ...; EXPECT_EQ(first_stray_open(), "");

#include <filesystem>
#include <string>

namespace test {

/// From now on files outside this folder count, but for the system's own and those of the build.
void watch_opens(const std::filesystem::path& folder);
/// The first that was opened outside since then, "" for none.
std::string first_stray_open();

}  // namespace test
