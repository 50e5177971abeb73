#pragma once
// One checkpoint of a run removed so that no half of it is ever seen under its name, and only when nothing speaks
// against it. Internal to libckpt. Thread safety: one thread a folder. Use: if (why_it_stays(step).empty())
// remove_step(folder_fd, step);

#include <cstdint>
#include <string>

#include "libckpt/run/step_files.h"

namespace ckpt::detail {

/// Why this is not provably a checkpoint and nothing else, one sentence; "" when it is: a file or an index that is one
/// by its content, or a folder that holds a checkpoint and beside it only what training programs write there.
std::string why_it_stays(const StepFile& step);

/// Bytes that its removal frees: files of one name, shards of an index too.
std::uint64_t removable_bytes(const StepFile& step);

/// Makes all of it durable, as another program may have left it to the page cache. Errors: Error(io).
void make_durable(int folder, const StepFile& step);

/// Removes it, with what edits in place left beside it. A folder is first hidden, an index goes before its shards
/// (those that no other index mentions). Errors: Error(io) when it is being written, was replaced or changed since it
/// was found, or cannot be removed.
void remove_step(int folder, const StepFile& step);

}  // namespace ckpt::detail
