#include "tests/promises/user_folder.h"

#include <algorithm>
#include <cstdlib>

#include "libckpt/analyze/pasteable.h"

namespace test {
namespace {

namespace fs = std::filesystem;

RunOptions with_program_in_path() {
  return {.in_child = [] {
    const fs::path folder = fs::absolute(built_program("")).parent_path();
    ::setenv("PATH", (folder.string() + ":/usr/bin:/bin").c_str(), 1);
  }};
}

std::string folder_of_model(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

}  // namespace

UserFolder::UserFolder(const fs::path& corpus, Json record, Json situation) : record_(record), situation_(situation) {
  const fs::path files = corpus / "files" / text(record["situation"]);
  if (fs::exists(files)) fs::copy(files, path(), fs::copy_options::recursive);
  const std::vector<std::string> words = texts(record["argv"]);
  const auto named = [&](const std::string& name) {
    return std::find(words.begin(), words.end(), name) != words.end();
  };
  for (const auto& list : fs::directory_iterator(corpus / "models" / folder_of_model(text(situation["model"])))) {
    if (named(list.path().filename())) fs::copy(list.path(), path());
  }
  if (about_message_alone() && fs::is_regular_file(path() / text(situation["file"]))) {
    fs::copy(path() / text(situation["file"]), path() / "FILE");
  }
  if (named("error.txt")) write_message("error.txt", false);
  if (named("traceback.txt")) write_message("traceback.txt", true);
  if (has(record, "redirect")) write_message(text(record["redirect"]), false);
}

void UserFolder::write_message(const fs::path& name, bool with_traceback) const {
  const std::string said = with_traceback ? text(situation_["traceback"]) : text(situation_["before"]["says"]);
  write_file(path() / name, said + "\n");
}

bool UserFolder::about_message_alone() const {
  const std::string mode = text(record_["mode"]);
  return mode == "error_file" || mode == "error_pipe" || mode == "traceback_pipe";
}

fs::path UserFolder::file() const {
  return path() / (about_message_alone() ? "FILE" : text(situation_["file"]));
}

Outcome UserFolder::ask(const std::string& option) const {
  std::string line = "ckpt";
  for (const std::string& word : texts(record_["argv"])) line += " " + ckpt::shell_word(word);
  if (!option.empty()) line += " " + option;
  if (has(record_, "redirect")) line += " < " + text(record_["redirect"]);
  if (!has(record_, "pipe")) return run_line(line);
  TempDir elsewhere;
  const bool with_traceback = text(record_["pipe"]) == "traceback.txt";
  write_message(elsewhere.path() / "said", with_traceback);
  return run_line("cat " + ckpt::shell_word((elsewhere.path() / "said").string()) + " | " + line);
}

Outcome UserFolder::run_line(const std::string& line) const {
  return run_program("/bin/sh", path(), {"-c", line}, with_program_in_path());
}

std::map<fs::path, UserFolder::Facts> UserFolder::list() const {
  std::map<fs::path, Facts> files;
  for (const auto& entry : fs::recursive_directory_iterator(path())) {
    if (entry.is_regular_file()) files.emplace(entry.path(), Facts{entry.file_size(), entry.last_write_time()});
  }
  return files;
}

void UserFolder::look() {
  before_ = list();
}

std::optional<fs::path> UserFolder::made() const {
  std::optional<fs::path> best;
  std::uintmax_t most = 0;
  for (const auto& [file, facts] : list()) {
    const auto known = before_.find(file);
    if (known != before_.end() && known->second == facts) continue;
    if (file.string().ends_with(".index.json")) return file;
    if (best && facts.size <= most) continue;
    best = file;
    most = facts.size;
  }
  return best;
}

}  // namespace test
