#pragma once
// Texts with a class, from a CSV file with a line of names, as the tokens of a model's tokenizer.
// Thread safety: pure. Use: train::DataSet data = train::load_text_rows("reviews.csv", {.model = "bert-base-uncased"});

#include <filesystem>

#include "tools/train/data_sets.h"

namespace train {

/// DataRequest::model is the folder whose tokenizer counts. Texts stand in `text_column` (that named "text" or
/// "sentence", or the only other one), classes in `target` (that named "label" or "labels", or the last). A text that
/// is longer than the model's positions, or than `length`, loses its end; what the tokenizer puts around it stays.
/// Errors: those of read_records(); Error(usage) for a column that is not there; Error(corrupt) naming the line of a
/// row without a class; those of zoo::text::Tokenizer::open(); Error(unsupported) for a tokenizer with more tokens than
/// the model.
DataSet load_text_rows(const std::filesystem::path& path, const DataRequest& request);

/// A text as blocks of `length` tokens (1024, or the model's positions, where it is 0), the last tenth held back; what
/// does not fill a block is left out. Errors: those of zoo::text::Tokenizer::open(); Error(usage) for a text that gives
/// no block to learn from.
DataSet load_token_blocks(const std::filesystem::path& path, const DataRequest& request);

}  // namespace train
