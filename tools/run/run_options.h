#pragma once
// The options of `ckpt zoo run`, `ckpt zoo info`, `ckpt zoo export` and `ckpt devices`. They are defined once and used
// twice: by ckpt, for help, manual pages and completion, and by ckpt-run, which does the work. Nothing here needs the
// runtime. Thread safety: plain values. Use: auto o = std::make_shared<RunOptions>(); CommandSpec c =
// define_zoo_run(zoo, *o);

#include <cstdint>
#include <string>
#include <vector>

#include "tools/ckpt/line/options.h"

namespace cli {

struct RunOptions : ReadOptions {
  std::string model;
  std::string weights;
  std::vector<std::string> inputs;
  std::int64_t top = 5;
  std::string labels;
  std::string device = "cpu";
  bool random = false;
  std::uint64_t seed = 0;
  bool guess = false;
  std::int64_t num_classes = 0;
  std::int64_t heads = 0;
  std::int64_t resize = -1;
  std::int64_t crop = -1;
  std::string output;
  bool force = false;
  std::string prompt;
  std::vector<std::string> texts;
  std::string language;
  std::string task;
  std::string vocabulary;
  std::int64_t generate = 0;
  // Of what generates; below 0, or 0 where that is no value: not given.
  double temperature = -1;
  std::int64_t top_k = -1;
  double top_p = -1;
  double repetition_penalty = 0;
  std::int64_t beams = 0;
  std::vector<std::string> stop;
};

struct ZooInfoOptions : ReadOptions {
  std::string name;
};

struct ZooExportOptions : ReadOptions {
  std::string name;
  std::string output;
  std::string weights;
  bool random = false;
  std::uint64_t seed = 0;
  bool guess = false;
  std::int64_t num_classes = 0;
  std::int64_t heads = 0;
  std::int64_t size = 0;    ///< of images; 0: as the weights expect
  std::int64_t length = 8;  ///< of the example text
  bool dynamic_batch = false;
  std::int64_t opset = 17;
  bool external_data = false;
  bool force = false;
};

struct DevicesOptions {
  bool json = false;
  bool measure = false;
};

/// The commands without what they do; the caller sets their callbacks.
CommandSpec define_zoo_run(CommandSpec zoo, RunOptions& options);
CommandSpec define_zoo_info(CommandSpec zoo, ZooInfoOptions& options);
CommandSpec define_zoo_export(CommandSpec zoo, ZooExportOptions& options);
CommandSpec define_devices(CommandSpec app, DevicesOptions& options);

}  // namespace cli
