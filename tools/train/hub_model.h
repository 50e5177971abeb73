#pragma once
// Models that learn on: from the folder that people have of a hub, with a head for the classes of the data, and back
// into such a folder, which transformers loads.
// Thread safety: none; laying out a model counts for the whole program. Use: if (train::is_model_folder(o.model)) auto
// model = train::load_classifier(o.model, data);

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "libcore/module/module.h"
#include "tools/train/data_sets.h"
#include "zoo/from_folder.h"

namespace train {

/// What works for models that learn on.
inline constexpr Preset kFineTuning{"", 64, 3, 16, "adamw", 5e-5};

/// Whether `model` names a folder and no model of the zoo.
bool is_model_folder(const std::string& model);

/// The family of a folder's model with a head for classes: BertForSequenceClassification for BertModel. Errors: those
/// of zoo::folder_config(); Error(unsupported) naming a family that has no such head here.
const zoo::Family& classifier_family(const std::filesystem::path& folder);

/// The family of a folder's model that continues texts. Errors: as those of classifier_family().
const zoo::Family& decoder_family(const std::filesystem::path& folder);

/// The names in the order in which the folder's model knows them, where its classes are the same ones; else as they
/// are.
std::vector<std::string> in_order_of_model(const std::filesystem::path& folder, std::vector<std::string> names);

/// The folder's model in f32 with a head for the classes of `data`; a head for another number of classes, and one that
/// is not there, is freshly drawn, all else kept. Errors: those of classifier_family() and zoo::from_folder();
/// Error(unsupported) for a model whose other weights do not fit.
std::shared_ptr<core::Module> load_classifier(const std::filesystem::path& folder, const DataSet& data);

/// The folder's model in f32, which continues texts. Errors: those of decoder_family() and zoo::from_folder().
std::shared_ptr<core::Module> load_decoder(const std::filesystem::path& folder);

/// What load_classifier() draws, one sentence; "" for nothing.
std::string about_head(const std::filesystem::path& folder, const DataSet& data);

/// The modules of load_classifier()'s model that learn where the rest stays as it is: its head, and what else was drawn
/// because the folder has none of it, such as the pooler that a BertForMaskedLM lacks.
std::vector<std::string> learning_parts(const std::filesystem::path& folder, const DataSet& data, core::Module& model);

/// Lets nothing but those parts learn. Errors: Error(unsupported) for a model that has nothing else.
void freeze_all_but(core::Module& model, const std::vector<std::string>& parts);
/// Whether `name` is that of one of `parts` or of something in it.
bool is_in_parts(std::string_view name, const std::vector<std::string>& parts);

/// Writes config.json with the names of the classes, model.safetensors, and the folder's files of tokenizer and
/// preprocessing. Errors: Error(io).
void write_model_folder(const std::filesystem::path& source, const DataSet& data, const core::StateDict& state,
                        const std::filesystem::path& target);

}  // namespace train
