#include "libckpt/io/file_set.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "libckpt/io/file_ops.h"
#include "libckpt/io/pending_files.h"
#include "libckpt/io/writer_lock.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using detail::file_ops;
using detail::throw_errno;
namespace fs = std::filesystem;

constexpr std::string_view kNoteSuffix = ".ckpt-set";
constexpr std::uint64_t kMaxNote = 16 << 20;
constexpr std::uint64_t kMaxIndex = 256 << 20;

/// A name that may be removed: a plain file name that JSON writes as it is.
bool is_plain(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 && core::is_utf8(name) &&
         std::none_of(name.begin(), name.end(),
                      [](unsigned char c) { return c < 0x20 || c == '/' || c == '\\' || c == '"' || c == 0x7f; });
}

/// The text of a small regular file; nullopt when that cannot be had.
std::optional<std::string> text_of(const fs::path& path, std::uint64_t limit) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  try {
    SourcePtr source = open_file(path);
    if (source->size() > limit) return std::nullopt;
    core::ByteVector bytes = read_all(*source);
    return std::string(core::as_text(bytes));
  } catch (const core::Error&) {
    return std::nullopt;
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x80; });
}

}  // namespace

struct FileSet::Impl {
  Impl(const fs::path& head_path, const Options& options_in)
      : options(options_in),
        name(head_path.filename().string()),
        folder(head_path.has_parent_path() ? head_path.parent_path() : fs::path(".")),
        folder_fd(open_folder(folder)),
        note("." + name.substr(0, 255 - 1 - kNoteSuffix.size()) + std::string(kNoteSuffix)),
        lock(folder_fd.get(), name) {
    for (const std::string& file : {name, note}) {
      if (lock.left_behind()) detail::remove_leftovers(folder_fd.get(), file, lock);
    }
    clean_up_after_kill();
    head = std::make_unique<AtomicFile>(
        head_path, AtomicFile::Options{.overwrite = options.overwrite, .durable = options.durable, .lock = false});
  }

  ~Impl() {
    if (committed) return;
    for (const std::string& file : written) remove(file);
    if (announced) remove(note);
    pending.clear();
  }

  /// Members lie where a reader looks for them: beside the path of the head, also where that is a link to elsewhere.
  static detail::Fd open_folder(const fs::path& folder) {
    detail::Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) throw_errno(errno, "cannot open the folder " + core::quote(folder.string()));
    return fd;
  }

  void remove(const std::string& file) const { file_ops().unlinkat(folder_fd.get(), file.c_str(), 0); }

  /// True when the head or another index in the folder holds the name as a JSON text, or might.
  bool is_mentioned(const std::string& member) const {
    std::string quoted = "\"" + member + "\"";
    std::error_code error;
    fs::directory_iterator entries(folder, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      std::string file = entries->path().filename().string();
      bool is_other = file != name;
      if (is_other && (file.find(".index.") == std::string::npos || file[0] == '.')) continue;
      // Another writer may spell what is not ASCII in escapes.
      if (is_other && !is_ascii(member)) return true;
      std::optional<std::string> text = text_of(entries->path(), kMaxIndex);
      if (!text || text->find(quoted) != std::string::npos) return true;
    }
    return static_cast<bool>(error);
  }

  void remove_unmentioned(const std::vector<std::string>& names) const {
    for (const std::string& file : names) {
      if (is_plain(file) && !is_mentioned(file)) remove(file);
    }
  }

  void clean_up_after_kill() {
    std::optional<std::string> text = text_of(folder / note, kMaxNote);
    if (!text) return;
    std::vector<std::string> names;
    for (std::string_view line : core::split(*text, '\n')) names.emplace_back(line);
    names.pop_back();  // behind the last line break; a name that was cut off is left alone
    for (const std::string& file : names) {
      if (is_plain(file)) detail::remove_leftovers(folder_fd.get(), file, lock);
    }
    remove_unmentioned(names);
    remove(note);
  }

  void sync_folder() const {
    if (options.durable && file_ops().fsync(folder_fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
      throw_errno(errno, "cannot make the files durable (fsync of the folder)");
    }
  }

  Options options;
  std::string name;  ///< of the head
  fs::path folder;
  detail::Fd folder_fd;
  std::string note;
  detail::WriterLock lock;  ///< of the head; members need none of their own
  std::unique_ptr<AtomicFile> head;
  std::vector<std::string> written;
  std::vector<std::string> superseded;
  std::vector<detail::PendingPart> pending;  ///< the note and the members in place
  bool announced = false;
  bool committed = false;
};

FileSet::FileSet(const fs::path& head, const Options& options)
    : impl_(core::with_context(head.string(), [&] { return std::make_unique<Impl>(head, options); })) {}

FileSet::~FileSet() = default;

bool FileSet::is_free(const std::string& name) const {
  std::error_code error;
  return fs::symlink_status(impl_->folder / name, error).type() == fs::file_type::not_found;
}

void FileSet::announce(const std::vector<std::string>& members, const std::vector<std::string>& superseded,
                       std::uint64_t size) {
  struct statvfs space {};
  if (::fstatvfs(impl_->folder_fd.get(), &space) == 0 && space.f_bavail < size / space.f_frsize) {
    throw_errno(ENOSPC, "cannot write " + core::format_size(size));
  }
  std::string text;
  for (const std::string& name : members) {
    if (!is_free(name)) throw core::Error(core::ErrorCode::io, "it already exists").add_context(impl_->folder / name);
    text += name + "\n";
  }
  for (const std::string& name : superseded) text += name + "\n";
  AtomicFile note(impl_->folder / impl_->note, {.durable = impl_->options.durable, .lock = false});
  note.write(core::as_bytes(text));
  note.prepare();
  detail::Step step;
  note.commit();
  impl_->pending.emplace_back(impl_->folder_fd.get(), impl_->note);
  impl_->announced = true;
  impl_->superseded = superseded;
}

void FileSet::write_member(const std::string& name, std::uint64_t size, const std::function<void(AtomicFile&)>& write) {
  AtomicFile file(impl_->folder / name,
                  {.overwrite = false, .durable = impl_->options.durable, .expected_size = size, .lock = false});
  write(file);
  file.prepare();
  detail::Step step;
  try {
    file.commit();
  } catch (...) {
    if (file.in_place()) impl_->written.push_back(name);
    throw;
  }
  impl_->written.push_back(name);
  impl_->pending.emplace_back(impl_->folder_fd.get(), name);
  if (!impl_->pending.back().is_claimed()) impl_->pending.front().let_go();  // the note stays with what stays
}

void FileSet::commit(Bytes head) {
  impl_->head->write(head);
  impl_->sync_folder();  // the members before the head that names them
  impl_->head->prepare();
  detail::Step step;  // the head is in place and the members stay, or neither; and the old members go with it
  try {
    impl_->head->commit();
  } catch (...) {
    impl_->committed = impl_->head->in_place();
    if (impl_->committed) impl_->pending.clear();
    throw;
  }
  impl_->committed = true;
  impl_->pending.clear();
  impl_->remove_unmentioned(impl_->superseded);
  impl_->remove(impl_->note);
}

}  // namespace ckpt
