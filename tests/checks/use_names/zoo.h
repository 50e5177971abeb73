#pragma once
// What the `Use:` lines of zoo take as given: batches of inputs, and a model that was made before.

#include <memory>

#include "libcore/module/module.h"
#include "zoo/data/image.h"
#include "zoo/measure.h"

namespace user {

extern const core::Tensor images, digits;           // (n, channels, height, width)
extern const core::Tensor labels;                   // (n)
extern const core::Tensor tokens, centre, context;  // (n, words)
extern const core::Tensor written;                  // (n, words), what a decoder has written so far
extern const core::Tensor samples, spectra;         // of sounds: (n), and (n, bands, frames)
extern const core::Tensor states, x;                // (n, words, features)
extern const zoo::Image image;
extern const core::Bytes content;  // of a file
extern const std::shared_ptr<core::Module> net;
extern zoo::Config config;           // the fields of a family
extern zoo::Fields fields;           // the same, as they are read
extern const zoo::ShapeOf shape_of;  // of a file's tensors

}  // namespace user
