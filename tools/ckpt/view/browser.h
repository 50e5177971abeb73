#pragma once
// `ckpt view`: the keys and pages of the browser. What it decides to write is written by its caller, after the screen.
// Thread safety: one thread. Use: Browser browser(screen, files, options); if (auto output = browser.run()) save(...);

#include <optional>
#include <string>
#include <vector>

#include "tools/ckpt/view/details.h"
#include "tools/ckpt/view/edit_queue.h"
#include "tools/ckpt/view/screen.h"
#include "tools/ckpt/view/tensor_tree.h"

namespace cli {

struct BrowsedFiles {
  const ckpt::Checkpoint* checkpoint = nullptr;  ///< the first file, whole
  std::string at = {};                           ///< the place in it that is shown
  const ckpt::Value* root = nullptr;             ///< what is there
  std::string first = {};                        ///< name as it was typed
  std::string second = {};                       ///< "" for one file
  std::string warning = {};                      ///< shown until the first key
};

class Browser {
 public:
  Browser(Screen& screen, const BrowsedFiles& files, TensorTree tree, unsigned threads);

  /// Until the user leaves. What the queued edits are to be written to: a file, or "" for the file itself; nullopt when
  /// nothing is to be written.
  std::optional<std::string> run();
  const EditQueue& queue() const { return queue_; }

 private:
  void draw();
  void draw_row(int row, std::size_t index, int width);
  void draw_side(int column, int width);
  void draw_foot();
  bool handle(const Key& key);
  bool move(const Key& key);
  bool change_tree(char32_t character);
  bool change_queue(char32_t character);
  void step_into();
  void step_out();
  void go_to(std::size_t row);

  /// A page of lines over the whole screen, until q or Escape; returns the key that ended it.
  Key page(const std::string& title, const std::vector<std::string>& lines, const std::string& foot,
           const std::string& keys);
  /// A line that the user types at the bottom; nullopt for Escape.
  std::optional<std::string> ask(const std::string& question);
  void show_details();
  void show_help();
  void show_queue();
  void search(bool backwards);
  void next_order();
  /// Runs `work` for each of these tensors and draws how far it is; any key stops it. Returns what the message is to
  /// say of that: "" when all were read, else that it was stopped, or which tensors cannot be read, and why.
  std::string for_tensors(const std::vector<std::size_t>& tensors, const std::string& what,
                          const std::function<void(ViewTensor&)>& work);
  std::string read_norms();
  void compare_below();
  void queue_edit(char32_t kind);
  bool leave();

  std::uint32_t chosen() const { return tree_.rows()[row_]; }
  bool has_rows() const { return !tree_.rows().empty(); }
  int height() const { return std::max(1, screen_.rows() - 3); }

  Screen& screen_;
  BrowsedFiles files_;
  TensorTree tree_;
  EditQueue queue_;
  unsigned threads_;
  std::size_t row_ = 0;
  std::size_t top_ = 0;
  std::string wanted_;   ///< what was searched last
  std::string message_;  ///< of the last line, until the next key
  bool closed_ = false;
  std::optional<std::string> output_;
};

}  // namespace cli
