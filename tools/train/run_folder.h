#pragma once
// The folder of a run: its config, the curve as CSV files and pictures, states to resume from, the best weights.
// steps.csv, epochs.csv and the states hold no times: a run that was killed and resumed leaves the same files as one
// that was not. Thread safety: none. Use: RunFolder folder(options.out, trainer, options); folder.after_step();

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tools/train/options.h"
#include "tools/train/trainer.h"

namespace train {

/// Files beside the config that say what the numbers of a run stand for; empty ones are not written.
struct RunNames {
  std::string symbols;  ///< of a text, one after the other
  std::string classes;  ///< one a line
};
/// Makes the folder and writes its config and names. Errors: Error(usage) when a run lies there already and `overwrite`
/// is false (with it, that run is removed), and when the model that learns on lies where the best one goes; Error(io).
void begin_run(const RunOptions& o, const RunNames& names, bool overwrite);

/// Writes a file, whole or not at all. Errors: Error(io).
void write_text(const std::filesystem::path& path, const std::string& text);
/// Writes the config anew.
void write_config(const std::filesystem::path& folder, const RunOptions& o);

/// States in a folder, newest first.
std::vector<std::filesystem::path> states_in(const std::filesystem::path& folder);
/// Resumes from the newest state that can be read; gives its path. `say` hears of those that cannot.
/// Errors: Error(io) when there is none; that of the newest when none can be read.
std::filesystem::path resume_newest(Trainer& trainer, const std::filesystem::path& folder,
                                    const std::function<void(const std::string&)>& say);

class RunFolder {
 public:
  /// `write_folder` writes the best weights as a folder, which --format may ask for.
  using WriteFolder = std::function<void(const core::StateDict& state, const std::filesystem::path& folder)>;
  /// Writes the curve so far anew. Errors of all members: Error(io).
  RunFolder(const RunOptions& o, const Trainer& trainer, WriteFolder write_folder = {});
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Adds to steps.csv; saves when it is time, also in the middle of an epoch.
  void after_step();
  /// Adds to epochs.csv, draws the pictures; saves when it is time.
  void after_epoch();
  /// Saves what is not saved yet.
  void finish();
  /// The newest state this process wrote, "" before.
  const std::string& newest_state() const { return newest_; }

 private:
  class Csv;
  using Clock = std::chrono::steady_clock;
  bool is_time() const;
  void save();
  void draw() const;

  const Trainer& trainer_;
  std::filesystem::path folder_;
  std::vector<std::string> formats_;
  WriteFolder write_folder_;
  std::string state_format_;
  std::int64_t keep_;
  double save_every_;
  std::string title_;
  std::unique_ptr<Csv> steps_, epochs_;
  Clock::time_point saved_ = Clock::now(), flushed_ = Clock::now();
  std::int64_t saved_step_ = -1, saved_epoch_ = -1;
  std::int64_t saved_best_ = 0;  ///< the best epoch whose weights are in the files
  std::string newest_;
};

}  // namespace train
