#include "libckpt/format/read_checkpoint.h"

#include "libckpt/budget.h"
#include "libckpt/format/format.h"
#include "libckpt/format/native/native.h"
#include "libckpt/io/file_source.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/io/unedited_source.h"
#include "libckpt/tensor_row.h"
#include "libcore/base/error.h"

namespace ckpt::detail {

Checkpoint read_checkpoint(const std::filesystem::path& path, const OpenOptions& options, TensorRow* row) {
  return core::with_context(shown_name(path), [&] {
    Input input = open_input(path, options);
    const Format& format = detect_format(input);
    OpenOptions own = options;
    own.limits = input.budget->limits(options.limits);
    const bool as_row = row != nullptr && &format == &kNative;
    Checkpoint checkpoint = as_row ? read_native_row(input, own, *row) : format.read(input, own);
    if (options.report != nullptr && hides_edit(*input.file)) {
      options.report->warnings.push_back(
          "an edit of this file goes on or was interrupted; it is read as it was before, and 'ckpt undo' takes the "
          "edit back");
    }
    read_as(*input.file, options.io);
    const TensorRow none;
    checkpoint.root = within_budget(checkpoint.root, row != nullptr ? *row : none, *input.file, *input.budget);
    checkpoint.format = format.name;
    checkpoint.path = path;
    return checkpoint;
  });
}

}  // namespace ckpt::detail
