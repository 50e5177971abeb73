#include "tools/run/run_options.h"

namespace cli {
namespace {

void add_image_options(CommandSpec run, RunOptions& options) {
  run.add_option(
         "-i,--input", options.inputs,
         "images (PNG, JPEG, PPM, PGM), or files with one tensor, of which FILE::name picks one; of a folder of "
         "Whisper, sounds (WAV, FLAC, Ogg, MP3)")
      .type_name("FILE");
  run.add_option("--top", options.top, "how many top classes to show (default: 5)").type_name("N").from(1);
  run.add_option("--labels", options.labels, "names of the classes: one per line, or JSON").type_name("FILE");
  run.add_option("--resize", options.resize, "resize the shorter side to N pixels, instead of what the weights expect")
      .type_name("N")
      .from(1);
  run.add_option("--crop", options.crop, "width and height of the center crop; 0: none").type_name("N").from(0);
}

void add_drawing_options(CommandSpec run, RunOptions& options) {
  run.add_option("--temperature", options.temperature,
                 "sampling temperature: below 1 is less random, 0 always takes the top token (default: 1; of a folder, "
                 "what it says, or 0)")
      .type_name("X")
      .from(0);
  run.add_option("--top-k", options.top_k, "draw only from the K likeliest tokens; 0: from all").type_name("K").from(0);
  run.add_option("--top-p", options.top_p, "draw only from the likeliest tokens that together have this probability")
      .type_name("P")
      .from(0);
  run.add_option("--repetition-penalty", options.repetition_penalty,
                 "make tokens that were there before less likely (above 1) or more (below 1)")
      .type_name("X")
      .from(0);
  run.add_option("--beams", options.beams, "keep the N best texts while going on, and print the best one")
      .type_name("N")
      .from(1);
  run.add_option("--stop", options.stop, "end behind this text").type_name("TEXT");
}

void add_text_options(CommandSpec run, RunOptions& options) {
  run.add_option("--prompt", options.prompt,
                 "for text models: token ids (15496,11,995), or text where the vocabulary is known")
      .type_name("TEXT");
  run.add_option("--text", options.texts, "of a folder of CLIP: a text that images are compared with; may be repeated")
      .type_name("TEXT")
      .one_value_each();
  run.add_option("--language", options.language,
                 "of a folder of Whisper: what is spoken, such as de or german (default: what the model hears)")
      .type_name("LANG");
  run.add_option("--task", options.task, "of a folder of Whisper: transcribe (default) or translate, into English")
      .type_name("TASK");
  run.add_option("--vocabulary", options.vocabulary,
                 "text whose characters, sorted, are the vocabulary (default: the one in the checkpoint)")
      .type_name("FILE");
  run.add_option("--generate", options.generate, "generate N tokens (of a folder, default: what it says, or 20)")
      .type_name("N")
      .from(1);
  add_drawing_options(run, options);
  run.add_option("--heads", options.heads,
                 "number of attention heads, if neither the model's name nor the file says it")
      .type_name("N")
      .from(1);
}

}  // namespace

CommandSpec define_zoo_run(CommandSpec zoo, RunOptions& options) {
  CommandSpec run =
      add_command(zoo, "run",
                  "ckpt zoo run resnet18 resnet18.pth --input dog.jpg cat.png --top 3\n  ckpt zoo run "
                  "lenet5 lenet.ckpt --input digits.npy\n  ckpt zoo run Llama-3.2-1B/ --prompt 'Once upon a "
                  "time' --generate 50 --top-p 0.9\n  ckpt zoo run "
                  "vit-base-patch16-224/ dog.jpg\n  ckpt zoo run llama-q8_0.gguf --prompt 'Once upon a time'\n  ckpt "
                  "zoo run whisper-tiny/ speech.wav --language en",
                  "Run a model on images, tensors or text, and show its top predictions.");
  run.add_option(
         "NAME", options.model,
         "model; or a folder with its config.json and weights, for --prompt also the tokenizer; or a GGUF file of "
         "llama.cpp, which has all of them")
      .required()
      .type_name("");
  run.add_option("FILE", options.weights, "weights, in any format that ckpt reads; of a folder, an image or a sound")
      .type_name("");
  add_image_options(run, options);
  add_text_options(run, options);
  run.add_option("--device", options.device, "where it runs (default: cpu)").type_name("DEV");
  run.add_flag("--random", options.random, "without a file: random weights");
  run.add_option("--seed", options.seed, "seed of all random numbers (default: 0)").type_name("N");
  run.add_flag("--guess", options.guess, "also pair tensors of equal shape by their order alone");
  run.add_option("--num-classes", options.num_classes, "classes (default: as many as the file has)")
      .type_name("N")
      .from(1);
  run.add_option("-o,--output", options.output, "also write the model's output, as a file with one tensor")
      .type_name("OUT");
  run.add_flag("-f,--force", options.force, "overwrite an existing output");
  add_read_options(run, options);
  add_remote_options(run);
  return run;
}

CommandSpec define_zoo_info(CommandSpec zoo, ZooInfoOptions& options) {
  CommandSpec info = add_command(zoo, "info", "ckpt zoo info resnet50\n  ckpt zoo info ./Llama-3.2-1B --json",
                                 "Show what a model is built from, how large it is, and whether its weights fit.");
  info.add_option("NAME", options.name, "model, family, or folder with config.json and weights")
      .required()
      .type_name("");
  add_answer_options(info, options);
  return info;
}

CommandSpec define_zoo_export(CommandSpec zoo, ZooExportOptions& options) {
  CommandSpec command =
      add_command(zoo, "export",
                  "ckpt zoo export resnet18 net.onnx --weights resnet18.pth --dynamic-batch\n  ckpt zoo export "
                  "./bert-base-uncased bert.onnx --dynamic-batch --opset 18",
                  "Write a model with its weights as ONNX, for onnxruntime and others.");
  command.add_option("NAME", options.name, "model, or a folder with config.json and weights").required().type_name("");
  command.add_option("OUT", options.output, "file to write").required().type_name("");
  command.add_option("--weights", options.weights, "of a model by name: weights, in any format that ckpt reads")
      .type_name("FILE");
  command.add_flag("--dynamic-batch", options.dynamic_batch, "any number of images or texts, and texts of any length");
  command.add_option("--opset", options.opset, "version of the operators: 17 (default) or 18").type_name("N").from(17);
  command.add_option("--size", options.size, "height and width of images (default: what the weights expect)")
      .type_name("N")
      .from(1);
  command.add_option("--length", options.length, "tokens of a text, without --dynamic-batch (default: 8)")
      .type_name("N")
      .from(3);
  command.add_flag("--external-data", options.external_data, "put values into OUT.data, as from 2 GiB on anyway");
  command.add_flag("--random", options.random, "without a file: random weights");
  command.add_option("--seed", options.seed, "seed of random weights (default: 0)").type_name("N");
  command.add_flag("--guess", options.guess, "also pair tensors of equal shape by their order alone");
  command.add_option("--num-classes", options.num_classes, "classes (default: as many as the file has)")
      .type_name("N")
      .from(1);
  command.add_option("--heads", options.heads, "number of attention heads, if neither name nor file says it")
      .type_name("N")
      .from(1);
  command.add_flag("-f,--force", options.force, "overwrite an existing output");
  add_read_options(command, options);
  return command;
}

CommandSpec define_devices(CommandSpec app, DevicesOptions& options) {
  CommandSpec devices =
      add_command(app, "devices", "ckpt devices\n  ckpt devices --measure",
                  "List the devices that models can run on, with their memory; measure what moving data costs.");
  devices.add_flag("--measure", options.measure, "copy data of many sizes to and from every device and time it");
  add_json_options(devices, options.json);
  return devices;
}

}  // namespace cli
