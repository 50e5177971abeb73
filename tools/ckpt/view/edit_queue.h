#pragma once
// Edits that `ckpt view` collects: each is shown with what it would do, then all are made in one save, by the functions
// and the run_edits() of the commands rename, cast, remap and select.
// Thread safety: one owner. Use: queue.add(rename_edit(root, "net.pth", "encoder", "backbone", true));
// queue.preview(checkpoint);

#include <functional>
#include <string>
#include <vector>

#include "tools/ckpt/edit/edit.h"

namespace cli {

struct QueuedEdit {
  std::string line;  ///< the command that does the same alone: "ckpt cast --to bfloat16 net.pth"
  EditFunction apply;
};

/// All keys that are `name`, or begin with it and a dot, begin with `to` instead. Names are as list_entries() has them.
QueuedEdit rename_edit(const ckpt::Value& root, const std::string& file, const std::string& name, const std::string& to,
                       bool is_module);
/// Error(usage) for a text that is no dtype.
QueuedEdit cast_edit(const std::string& file, const std::string& dtype);
/// Error(usage) for a text that is no device.
QueuedEdit remap_edit(const std::string& file, const std::string& device);
/// The tensor, or all of the module, of this name.
QueuedEdit drop_edit(const std::string& file, const std::string& name);

class EditQueue {
 public:
  void add(QueuedEdit edit) { edits_.push_back(std::move(edit)); }
  void undo_last() { edits_.pop_back(); }
  bool empty() const { return edits_.empty(); }
  std::size_t size() const { return edits_.size(); }
  const std::vector<QueuedEdit>& edits() const { return edits_; }

  /// The whole as one edit, with the summaries and steps of its parts. Errors: those of the commands.
  Edit apply(const ckpt::Checkpoint& checkpoint, const std::string& at) const;
  /// What would be done, line by line; an error is the last line.
  std::vector<std::string> preview(const ckpt::Checkpoint& checkpoint, const std::string& at) const;

 private:
  std::vector<QueuedEdit> edits_;
};

}  // namespace cli
