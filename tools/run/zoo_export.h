#pragma once
// ckpt zoo export: a model with its weights as an ONNX file. Thread safety: one thread. Use: return
// run_zoo_export(context, options);

#include "tools/run/run_options.h"

namespace cli {

/// Exit code 0. Errors: Error(usage) for a name that is neither a model nor a folder, and for options that do not fit;
/// Error(unsupported) for a model that takes something else than one image or text; those of loading the weights and
/// of ckpt::onnx::export_model().
int run_zoo_export(Context& context, const ZooExportOptions& options);

}  // namespace cli
