#pragma once
// What SummaryWriter adds, as encoded Summary messages. Internal to tensorboard. Thread safety: pure functions.

#include <string>

#include "libcore/tensorboard/summary_writer.h"

namespace core::tensorboard {

std::string scalar_summary(const std::string& tag, double value);
std::string text_summary(const std::string& tag, const std::string& text);
/// Error(value) as add_histogram() says.
std::string histogram_summary(const std::string& tag, const Tensor& values, const HistogramOptions& options);
/// Error(assertion) when `dataformats` and the image do not fit.
std::string image_summary(const std::string& tag, const Tensor& image, const std::string& dataformats);

/// The three messages of a run in the table of hyperparameters.
std::string experiment_summary(const Hparams& hparams, const Metrics& metrics, const HparamsOptions& options);
std::string session_start_summary(const Hparams& hparams);
std::string session_end_summary();

}  // namespace core::tensorboard
