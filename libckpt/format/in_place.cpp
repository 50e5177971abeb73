#include "libckpt/format/in_place.h"

#include "libckpt/format/dcp/parts_file.h"
#include "libckpt/format/folder.h"
#include "libckpt/format/format.h"
#include "libckpt/format/safetensors/present_files.h"
#include "libckpt/io/unpacked_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

/// nullopt also for files that cannot be read: they say what is wrong with them elsewhere.
std::optional<FileEdit> cut_appended(const std::filesystem::path& path) {
  try {
    Input input = open_input(path);
    const Format& format = detect_format(input);
    return format.cut_appended == nullptr ? std::nullopt : format.cut_appended(input);
  } catch (const core::Error&) {
    return std::nullopt;
  }
}

/// The target may be a link to the file.
bool may_edit(const ByteSource& file, const std::filesystem::path& target) {
  std::error_code failed;
  std::filesystem::path real = std::filesystem::canonical(target, failed);
  return !failed && is_file_of(file, real) && EditJournal::may_edit(real);
}

/// A set whose index alone changes is that one file.
std::optional<InPlaceEdit> plan_set(const Format& format, const Checkpoint& checkpoint,
                                    const std::filesystem::path& target, const SaveOptions& options) {
  std::optional<SetEdit> edit = format.edit_set(checkpoint, target, options);
  if (!edit || !may_edit_member(target, target.filename().string())) return std::nullopt;
  for (const MemberEdit& member : edit->members) {
    bool possible = may_edit_member(target, member.name) && EditJournal::can_record(member.changes);
    if (!possible) return std::nullopt;
  }
  if (!edit->members.empty()) return InPlaceEdit{{}, std::move(*edit), format.edited_part};
  FileEdit changes;
  changes.replace_end(0, edit->old_head, edit->new_head);
  return InPlaceEdit{std::move(changes), std::nullopt, "index"};
}

}  // namespace

void refuse_packed(const Checkpoint& checkpoint, const std::filesystem::path& target) {
  using core::Error;
  if (detail::Packer packer = detail::packer_named(target); packer != detail::Packer::none) {
    throw Error(core::ErrorCode::unsupported, "files packed with " + std::string(name(packer)) +
                                                  " are only read; name an output without " +
                                                  core::quote(target.extension().string()) + ", and pack that");
  }
  detail::Packer packer = detail::packer_of_file(target);
  if (packer == detail::Packer::none) return;
  std::error_code failed;
  if (!std::filesystem::equivalent(named_file(checkpoint.path), target, failed) || failed) return;
  throw Error(core::ErrorCode::unsupported,
              "this file is packed with " + std::string(name(packer)) + " and only read; name another output");
}

void check_in_place(const Checkpoint& checkpoint, const std::filesystem::path& target) {
  core::with_context(target.string(), [&] { refuse_packed(checkpoint, target); });
  detail::require_all_listed(checkpoint, target);
}

std::optional<InPlaceEdit> plan_in_place(const Checkpoint& checkpoint, const std::filesystem::path& target,
                                         const SaveOptions& options) {
  bool wanted = options.in_place && options.overwrite;
  if (!wanted || (!options.format.empty() && options.format != checkpoint.format)) return std::nullopt;
  const Format* format = find_format(checkpoint.format);
  if (format != nullptr && format->edit_set != nullptr) return plan_set(*format, checkpoint, target, options);
  const ByteSource* file = checkpoint.detail ? checkpoint.detail->file_read() : nullptr;
  bool possible = format != nullptr && format->edit != nullptr && file != nullptr && may_edit(*file, target);
  std::optional<FileEdit> changes = possible ? format->edit(checkpoint, options) : std::nullopt;
  if (!changes || !EditJournal::can_record(*changes)) return std::nullopt;
  std::string_view part = changes->part.empty() ? format->edited_part : changes->part;
  return InPlaceEdit{std::move(*changes), std::nullopt, part};
}

void edit_in_place(const Checkpoint& checkpoint, InPlaceEdit edit, const std::filesystem::path& target,
                   const SaveOptions& options) {
  std::uint64_t bytes = edit.length();
  const ByteSource* file = checkpoint.detail->file_read();
  if (file != nullptr) core::with_context(target.string(), [&] { file->require_unchanged(); });
  const bool appends = edit.appends();
  UndoKept kept = UndoKept::in_file;
  if (bytes > 0)
    kept = edit.set ? apply_set_edit(target, *edit.set) : EditJournal(target).apply(std::move(edit.changes));
  if (options.progress) options.progress(bytes, bytes);
  if (options.report == nullptr) return;
  std::string warning = undo_warning(kept);
  if (!warning.empty()) options.report->warnings.push_back(warning);
  options.report->bytes_written += bytes;
  options.report->rung = appends ? "append" : "in place";
  options.report->part = edit.part;
}

std::uint64_t undo_edit(const std::filesystem::path& path) {
  if (is_set_edit(path)) return undo_set_edit(path);
  std::uint64_t put_back = detail::may_be_head(path.filename().string()) ? settle_set(path) : 0;
  if (put_back > 0) return put_back;
  // The edit replaced it as well: programs that read these folders know no journals.
  if (path.filename() == detail::kDcpMetadata) return undo_by_replacing(path);
  EditJournal journal(path);
  std::optional<FileEdit> cut = journal.can_undo() ? std::nullopt : cut_appended(path);
  if (!cut || !EditJournal::can_record(*cut)) return journal.undo();
  std::uint64_t bytes = cut->length();
  journal.apply(std::move(*cut));
  return bytes;
}

}  // namespace ckpt
