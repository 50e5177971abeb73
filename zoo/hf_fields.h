#pragma once
// Fields that many a config.json of Hugging Face has. Thread safety: as Fields.
// Use: zoo::detail::pass_beside(fields); const std::int64_t labels = zoo::detail::read_labels(fields, 2);

#include <cstdint>
#include <string>
#include <string_view>

#include "zoo/config.h"

namespace zoo::detail {

/// What a config.json has beside the model: files, tokens, generation, initial values. Errors: those of Fields::only()
/// for heads that were taken out.
void pass_around(Fields& f);
/// The same, of a model that neither is a decoder behind an encoder nor has one.
void pass_beside(Fields& f);
/// The name of an activation that text_activation() knows.
std::string read_activation(Fields& f, std::string_view name, std::string_view fallback);
/// -1 for a model that pads with no token of its own.
std::int64_t read_padding(Fields& f, std::int64_t fallback, std::int64_t vocabulary);
/// By their number or their names.
std::int64_t read_labels(Fields& f, std::int64_t fallback);

/// The sizes of a transformer's layers and their activation.
template <class Options>
void read_layers(Fields& f, Options& o) {
  o.hidden_size = f.count("hidden_size", o.hidden_size);
  o.num_hidden_layers = f.depth("num_hidden_layers", o.num_hidden_layers);
  o.num_attention_heads = f.count("num_attention_heads", o.num_attention_heads);
  o.intermediate_size = f.count("intermediate_size", o.intermediate_size);
  o.hidden_act = read_activation(f, "hidden_act", o.hidden_act);
}

}  // namespace zoo::detail
