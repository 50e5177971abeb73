#pragma once
// The model of a folder that tells classes of images apart, or gives values for them, with what the folder says about
// images and the names of classes. Thread safety: one thread. Use: if (takes_images(options)) RunModel model =
// prepare_folder_model(options);

#include "tools/run/run_model.h"

namespace cli {

/// Whether the folder's model takes images, alone or beside --text, and no --prompt was given.
bool takes_images(const RunOptions& options);

/// Error(usage) for --text, which other models do not take.
void refuse_texts(const RunOptions& options);

/// Of CLIP its classes are the texts. Errors: those of zoo::from_folder() and zoo::folder_image_processor();
/// Error(usage) for options that a folder does not take, without an image, and for texts that are missing, not wanted
/// or longer than the model's positions.
RunModel prepare_folder_model(const RunOptions& options);

}  // namespace cli
