#include "tests/fuzz/targets.h"

#include "libckpt/format/format.h"
#include "tests/fuzz/difference_targets.h"
#include "tests/fuzz/format_targets.h"
#include "tests/fuzz/part_targets.h"

namespace fuzz {
namespace {

struct Row {
  Target target;
  std::string_view format;  ///< that must be in the build; "" = none
};

std::vector<std::string_view> selector_texts() {
  return {
      "encoder.*.weight\nencoder.layers.0.weight",
      "re:layers\\.\\d+\\.bias\nlayers.10.bias",
      "*.weight @dtype=bf16|f16 @numel>1M @ndim=2 @bytes>=1MiB @shape=768x*\nfc.weight",
      "@kind=buffer @location=cuda* @dtype!=f32\nbn.running_mean",
      "a\\ b{name}[0-9]?.**\na b.c",
  };
}

std::vector<std::string_view> rule_texts() {
  return {
      "[[rule]]\nrename = \"h.{#i}.attn.*\"\nto = \"blocks.{i}.attn.*\"\n",
      "[[rule]]\ndrop = \"*.bias\"\n[[rule]]\ntranspose = \"*.weight\"\ndims = [1, 0]\n",
      "[[rule]]\nreshape = \"fc.weight\"\nshape = [-1, 1, 1]\nwas = [-1]\n",
      "[[rule]]\nsplit = \"h.{#i}.attn.c_attn.*\"\nto = [\"h.{i}.q.*\", \"h.{i}.k.*\", \"h.{i}.v.*\"]\ndim = 0\n",
      "[[rule]]\nfuse = [\"h.{#i}.attn.c_attn.*\", \"fc.*\"]\nto = \"all.*\"\nsizes = [6, 6]\n",
      "[[rule]]\ncast = \"*.weight @dtype=f32\"\ndtype = \"bf16\"\nwas = \"f32\"\n",
      "[[rule]]\ntie = \"lm_head.weight\"\nto = \"wte.weight\"\n",
      "[[rule]]\nfold = \"{m}.bias\"\nto = \"{m}.weight\"\nby = \"subtract\"\n[[rule]]\nadd = \"*\"\nvalue = 1e-3\n",
      "[[rule]]\nunfold = \"fc.weight\"\nto = \"fc.scale\"\nby = \"multiply\"\n",
      "[[rule]]\nmake = \"n\"\nvalues = [0.5, 2]\ndtype = \"f32\"\n[[rule]]\ndrop = \"n\"\nwas = 1\ndtype = \"i32\"\n",
      "{\"fc.weight\": \"fc2.weight\", \"fc.bias\": \"fc2.bias\"}",
      "{\"rules\": [{\"rename\": [[\"a\", \"b\"]]}]}",
  };
}

std::vector<std::string_view> why_texts() {
  return {
      "fc.weight 10x512 float32 parameter\nfc.bias [10]\nbn.n scalar int64 buffer\n# name x\n~ fc 2\n= a b\n",
      "odict_keys(['fc.weight', 'fc.bias'])",
      "{\"fc.weight\": [10, 512], \"fc.bias\": {\"shape\": [10], \"dtype\": \"F32\"}}",
      "RuntimeError: Error(s) in loading state_dict for ResNet:\n\tMissing key(s) in state_dict: \"a.b\", \"c\". \n"
      "\tUnexpected key(s) in state_dict: \"module.a.b\". \n\tsize mismatch for fc.weight: copying a param with shape "
      "torch.Size([1000, 512]) from checkpoint, the shape in current model is torch.Size([10, 512]).",
      "WeightsUnpickler error: Unsupported global: GLOBAL argparse.Namespace was not an allowed global by default.",
      "RuntimeError: Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1.",
      "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
      "_pickle.UnpicklingError: invalid load key, '<'.",
  };
}

std::vector<std::string_view> ppm_texts() {
  using namespace std::string_view_literals;
  return {"P6\n2 1\n255\n\x01\x02\x03\xff\xfe\xfd"sv, "P5 2 2 65535 \x00\x01\x02\x03\xff\xff\x80\x00"sv,
          "P3 # colours\n1 2 15 0 1 2\n13 14 15"sv, "P2\n# grey\n3 1\n255\n0 127 255\n"sv, "P6 100000 100000 255 x"sv};
}

/// Choice of filters, filters that were skipped, then the chunk.
std::vector<std::string_view> chunk_texts() {
  using namespace std::string_view_literals;
  return {"\x00\x00plain"sv,
          "\x01\x00shuffled"sv,
          "\x02\x00\x78\x9c\x4b\x4c\x4a\x06\x00\x02\x4d\x01\x27"sv,
          "\x04\x00\x28\xb5\x2f\xfd\x20\x03\x19\x00\x00\x61\x62\x63"sv,
          "\x08\x00\x02\x61\x62\x63\x20\x00"sv,
          "\x10\x00\x61\x62\x63\x64\x00\x00\x00\x00"sv};
}

/// One of each kind of model, with steps of every kind around them.
std::vector<std::string_view> tokenizer_texts() {
  return {
      R"json({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<0x41>":3},"merges":["a b"],"byte_fallback":true},
"added_tokens":[{"id":4,"content":"<s>","special":true,"lstrip":true,"rstrip":true,"single_word":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "}]},
"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\p{N}{1,3}| ?[^\\s\\p{L}]+|\\s+(?!\\S)"},"behavior":"Isolated"},
"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1}]}})json",
      R"json({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]],"unk_token":"a","fuse_unk":true},
"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},"decoder":{"type":"ByteLevel"},
"post_processor":{"type":"RobertaProcessing","sep":["b",1],"cls":["a",0]}})json",
      R"json({"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"##b":2},"unk_token":"[UNK]"},
"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece"},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"c"}},{"Sequence":{"id":"A"}}],
"special_tokens":{"c":{"id":"c","ids":[1],"tokens":["c"]}}}})json",
      R"json({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-1.5],["ab",-2],["a",-3]]},
"normalizer":{"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAAA="},
"pre_tokenizer":{"type":"Metaspace","prepend_scheme":"first"},"decoder":{"type":"Metaspace"}})json"};
}

/// Kind of floats, then a packed chunk: four of bf16 stored; 33 of bf16 with an exponent of its own; 32 of f16.
std::vector<std::string_view> float_texts() {
  using namespace std::string_view_literals;
  return {"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x80\xbf\xc0\x7f"sv,
          "\x01\x01\x78\x00\x00\x01\x00\x00\x00\xff\x00\xff\x00\x0f\x0f\x0f\x0f\x33\x33\x33\x33\x01\x00\x00\x00\x00\x00"
          "\x00\x00\x00"
          "\x00\x00\x00"
          "abcdefghijklmnopqrstuvwxyz0123456\x20\x05"sv,
          "\x00\x01\x08\x00\x00\x00\x00\x00\x00"
          "abcdefghijklmnopqrstuvwxabcdefghijklmnopqrstuvwxyz012345"sv};
}

std::vector<std::string_view> keras_texts() {
  return {
      R"json({"class_name":"Sequential","config":{"layers":[{"class_name":"Conv2D","config":{"name":"c","padding":"same",
"strides":[2,2]}},{"class_name":"BatchNormalization","config":{"name":"b","scale":false,"epsilon":0.01}},
{"class_name":"Flatten","config":{"name":"f"}},{"class_name":"Dense","config":{"name":"d"}},
{"class_name":"Bidirectional","config":{"name":"g","layer":{"class_name":"GRU","config":{"name":"i"}},
"backward_layer":{"class_name":"GRU","config":{"name":"j","reset_after":true,"activation":"tanh"}}}}]}})json",
      R"json({"class_name":"Functional","config":{"layers":[{"class_name":"InputLayer","config":{"name":"i",
"batch_shape":[null,2,1,3]}},{"class_name":"Conv2D","config":{"name":"c"},"inbound_nodes":[{"args":[{"class_name":
"__keras_tensor__","config":{"keras_history":["i",0,0]}}],"kwargs":{}}]},{"class_name":"Flatten","config":{"name":"f"},
"inbound_nodes":[[["c",0,0,{}]]]},{"class_name":"Functional","config":{"name":"m","layers":[{"class_name":"InputLayer",
"config":{"name":"x"}},{"class_name":"Dense","config":{"name":"d"},"inbound_nodes":[[["x",0,0,{}]]]}],
"output_layers":[["d",0,0]]},"inbound_nodes":[[["f",0,0,{}]]]}]}})json"};
}

std::vector<Row> rows() {
  return {
      {{"safetensors", run_safetensors, {{"safetensors", ".safetensors"}, {"broken", "st_"}}}, "safetensors"},
      {{"safetensors_index", run_safetensors_index, {{"safetensors/sharded", "index.json"}}}, "safetensors-sharded"},
      {{"json", run_json, {{"safetensors", "manifest.json"}}}, ""},
      {{"zip", run_zip, {{"broken", "zip_"}, {"torch_2.15", "zip"}, {"numpy", ".npz"}}}, ""},
      {{"torch_zip", run_torch_zip, {{"torch_2.15", ".pt"}, {"broken", ".pth"}}}, "torch-zip"},
      {{"torch_pickle", run_torch_pickle, {{"torch_2.15", ".pt"}, {"torch_1.13", ".pt"}}, pickle_of}, "torch-zip"},
      {{"torch_legacy", run_torch_legacy, {{"torch_2.15", "legacy"}, {"torch_1.13", "legacy"}}}, "torch-legacy"},
      {{"torch_tar", run_torch_tar, {{"torch_2.15", "tar"}}}, "torch-tar"},
      {{"native_index",
        run_native_index,
        {{"torch_2.15", ".pt"}, {"safetensors", ".safetensors"}},
        native_index_of,
        native_indexes()},
       "native"},
      {{"npy", run_npy, {{"numpy", ".npy"}, {"broken", "npy_"}}}, "npy"},
      {{"npz", run_npz, {{"numpy", ".npz"}, {"broken", "npz_"}}}, "npz"},
      {{"gguf", run_gguf, {{"gguf", ".gguf"}, {"broken", "gguf_"}}}, "gguf"},
      {{"flax", run_flax, {{"flax", ".msgpack"}}}, "flax"},
      {{"pickle_arrays", run_pickle_arrays, {{"pickle", ".pkl"}, {"paddle", ".pd"}}}, "pickle"},
      {{"pt2", run_pt2, {{"pt2", ".pt2"}}}, "pt2"},
      {{"onnx", run_onnx, {{"onnx", ".onnx"}}}, "onnx"},
      {{"torchscript", run_torchscript, {{"torch_2.15", "script"}, {"torch_1.13", "script"}}}, "torchscript"},
      {{"dcp_metadata", run_dcp_metadata, {{"dcp/one_rank", ".metadata"}, {"dcp/two_ranks", ".metadata"}}}, "dcp"},
      {{"fsdp_ranks",
        run_fsdp_ranks,
        {{"../fsdp/two/in", ".pth", true},
         {"../fsdp/hybrid/in", ".pth", true},
         {"../fsdp/optimizer/in", ".pth", true},
         {"../fsdp/accelerate/in", ".bin", true}},
        pickle_of},
       "fsdp"},
      {{"scan", run_scan, {{"torch_2.15", "hostile"}, {"broken", "foreign"}, {"numpy", "object"}, {"gguf", ".gguf"}}},
       ""},
      {{"hdf5_answer", run_hdf5_answer, {{"hdf5", ".h5"}}, hdf5_answer_of}, "hdf5"},
      {{"hdf5_image", run_hdf5_image, {{"hdf5", ".h5"}}, hdf5_image_of}, "hdf5"},
      {{"hdf5_chunk", run_hdf5_chunk, {}, nullptr, chunk_texts()}, "hdf5"},
      {{"why_text", run_why_text, {{"safetensors/sharded", "index.json"}}, nullptr, why_texts()}, ""},
      {{"ppm", run_ppm, {}, nullptr, ppm_texts()}, ""},
      {{"planes", run_planes, {{"safetensors", ".safetensors"}, {"torch_2.15", "zip"}}}, ""},
      {{"predicted", run_predicted, {{"safetensors", ".safetensors"}, {"torch_2.15", "zip"}}}, ""},
      {{"predicted_part", run_predicted_part, {}, nullptr, predicted_parts()}, ""},
      {{"floats", run_floats, {{"safetensors", ".safetensors"}}, nullptr, float_texts()}, ""},
      {{"rules", run_rules, {}, nullptr, rule_texts()}, ""},
      {{"tokenizer", run_tokenizer, {}, nullptr, tokenizer_texts()}, ""},
      {{"selector", run_selector, {}, nullptr, selector_texts()}, ""},
      {{"keras_config", run_keras_config, {}, nullptr, keras_texts()}, ""},
      {{"strip_reread",
        run_strip_reread,
        {{"torch_2.15", ".pt"}, {"safetensors", ".safetensors"}, {"numpy", ".np"}, {"gguf", ".gguf"}}},
       ""},
  };
}

}  // namespace

std::vector<Target> targets() {
  std::vector<Target> out;
  for (Row& row : rows()) {
    if (row.format.empty() || ckpt::find_format(row.format) != nullptr) out.push_back(std::move(row.target));
  }
  return out;
}

}  // namespace fuzz
