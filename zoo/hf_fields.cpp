#include "zoo/hf_fields.h"

namespace zoo::detail {

void pass_around(Fields& f) {
  f.pass({"architectures",
          "model_type",
          "torch_dtype",
          "dtype",
          "transformers_version",
          "_name_or_path",
          "name_or_path",
          "use_cache",
          "return_dict",
          "output_hidden_states",
          "output_attentions",
          "chunk_size_feed_forward",
          "problem_type",
          "label2id",
          "initializer_range",
          "tokenizer_class",
          "task_specific_params",
          "gradient_checkpointing",
          "auto_map",
          "output_past",
          "_num_labels",
          "_attn_implementation",
          "torchscript",
          "use_bfloat16",
          "finetuning_task",
          "prefix"});
  f.pass({"bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "mask_token_id", "decoder_start_token_id",
          "max_length", "min_length", "do_sample", "temperature", "top_k", "top_p", "repetition_penalty", "num_beams",
          "length_penalty", "early_stopping", "no_repeat_ngram_size", "num_return_sequences"});
  f.only("pruned_heads", "{}");
}

void pass_beside(Fields& f) {
  pass_around(f);
  f.only("is_encoder_decoder", "false");
  f.only("is_decoder", "false");
  f.only("add_cross_attention", "false");
}

std::string read_activation(Fields& f, std::string_view name, std::string_view fallback) {
  return f.choice(name, fallback,
                  {"gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu", "swish", "tanh"});
}

std::int64_t read_padding(Fields& f, std::int64_t fallback, std::int64_t vocabulary) {
  const std::int64_t pad = f.count("pad_token_id", f.is_null("pad_token_id") ? -1 : fallback, -1);
  if (pad >= vocabulary) f.refuse("pad_token_id", "is past the vocabulary");
  return pad;
}

std::int64_t read_labels(Fields& f, std::int64_t fallback) {
  const std::int64_t named = f.members("id2label", 0);
  return f.count("num_labels", named > 0 ? named : fallback);
}

}  // namespace zoo::detail
