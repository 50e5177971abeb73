#pragma once
// Everything that a user can choose about a training run, and the one table of it that the command line, the config
// file and the config file's writer go by.
// Thread safety: plain values. Use: RunOptions o; for (const Field& field : fields(o)) ...

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace train {

/// What is not set (nothing, or an empty text) is chosen by the data set and the model: see fill_in() of plan.h.
struct RunOptions {
  bool is_text = false;  ///< characters of a text instead of rows with a target

  // Rows with a target.
  std::string data;         ///< name of a data set, or a folder or file
  std::string kind;         ///< classes or values
  std::string target;       ///< column of a table, by name or by number from 0; the last
  std::string text_column;  ///< of a CSV file of texts
  std::string split;        ///< none, every:N, last:N
  std::string scale;        ///< none, standard
  std::optional<std::int64_t> rows, test_rows, resize;
  bool in_order = false;

  // Characters of a text.
  std::string text;  ///< file
  std::optional<std::int64_t> length, epoch_steps;

  std::string model;
  std::optional<std::int64_t> hidden, channels, types, layers, heads, width;
  std::optional<double> dropout;
  std::optional<std::int64_t> lora;  ///< rank
  std::optional<double> lora_alpha;
  std::string lora_targets;
  bool freeze = false;  ///< of a folder's model only the head learns

  std::optional<std::int64_t> epochs, batch;
  std::string optimizer;
  std::optional<double> lr, momentum, beta1, beta2, weight_decay;
  bool nesterov = false;
  std::string schedule;
  std::optional<std::int64_t> warmup, step_size, patience;
  std::string milestones;
  std::optional<double> gamma, min_lr;
  std::optional<double> clip;
  std::optional<std::int64_t> early_stop;
  std::optional<double> min_delta;

  std::string amp;  ///< bf16 or f16: mixed precision

  std::optional<std::int64_t> seed, threads;
  std::string devices;

  std::string out;
  std::string format, state_format;
  std::optional<std::int64_t> keep;
  std::optional<double> save_every;
};

/// One option: a name for the command line (behind "--") and for the config file.
struct Field {
  /// Which commands have it.
  enum Where : unsigned { fit = 1, text = 2, both = fit | text, resume = 4, all = both | resume };
  const char* name;
  unsigned where;
  const char* group;
  const char* help;
  std::variant<std::string*, std::optional<std::int64_t>*, std::optional<double>*, bool*> value;
  const char* alone = nullptr;  ///< what the option means on a command line without a value, where it may stand so
};

/// All of them, in the order of the help.
std::vector<Field> fields(RunOptions& o);

/// Puts what is set in `from` into `to`.
void merge(RunOptions from, RunOptions& to);

/// "key = value" lines of a TOML file with everything that is set, from which the same run can be started again.
std::string to_toml(const RunOptions& options);

/// What a config file says.
struct Config {
  bool is_text = false;                ///< of `train text`
  std::vector<std::string> arguments;  ///< "--name=value", for a parser of command lines
};
/// Reads such a file. `where`: the options that the command has, 0 for those of the command that the file names.
/// Errors: Error(corrupt) for text that is no TOML; Error(usage) naming the key, and what was probably meant, for one
/// that is no option, for a value that is a list or a table, and for a file of another command.
Config read_config(const std::string& file, unsigned where);

}  // namespace train
