#pragma once
// `ckpt convert FOLDER OUT.h5 --virtual`: an HDF5 file that shows the tensors of a checkpoint in native parts and holds
// none of their bytes. Thread safety: one thread. Use: return write_virtual_datasets(context, options, source, target);

#include <string>

#include "tools/ckpt/line/address.h"
#include "tools/ckpt/line/options.h"

namespace cli {

/// Returns the exit code. Errors: those of check_target(), plan_virtual_file() and write_virtual_file(); Error(usage)
/// for options that say something of values.
int write_virtual_datasets(Context& context, const EditOptions& options, const Address& source,
                           const std::string& target);

}  // namespace cli
