#pragma once
// What torch.save writes of one object: the records of its archive, in PyTorch's order and layout to the byte. Thread
// safety: pure. Use: ZipWriter zip = archive_of(checkpoint.root); zip.write(file);

#include "libckpt/io/zip.h"
#include "libckpt/value.h"

namespace ckpt {

/// The same value gives the same bytes. REQUIRES: as pickle_tree().
ZipWriter archive_of(const Value& root);

}  // namespace ckpt
