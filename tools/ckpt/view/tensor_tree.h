#pragma once
// The tensors of a file, or of two files side by side, as a tree of modules that opens and folds: what `ckpt view`
// shows, without a screen. No value is read. Rows are found in one walk, so that 100,000 tensors scroll at once.
// Thread safety: one owner. Use: TensorTree tree(std::move(tensors)); tree.open(tree.rows()[0]); draw(tree.rows());

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/checkpoint.h"

namespace cli {

/// What is known of a tensor that two files may have.
enum class Sameness : std::uint8_t { unknown, equal, other_values, other_form, only_first, only_second };

struct ViewTensor {
  std::string name;                 ///< dotted
  ckpt::EntryPtr first = {};        ///< null where only the second file has it
  ckpt::EntryPtr second = {};       ///< null where there is no second file, or it lacks it
  std::optional<double> norm = {};  ///< once it was read
  Sameness sameness = Sameness::unknown;
  const ckpt::Entry& entry() const { return first ? *first : *second; }
};

/// Both files' tensors by name: those of the first in its order, then those of the second alone.
std::vector<ViewTensor> beside(const std::vector<ckpt::NamedEntry>& first, const std::vector<ckpt::NamedEntry>& second);
/// Of one file.
std::vector<ViewTensor> alone(const std::vector<ckpt::NamedEntry>& entries);

enum class ViewOrder : std::uint8_t { file, name, size, norm };
/// "file", "name", "size", "norm".
std::string_view name(ViewOrder order);

class TensorTree {
 public:
  struct Node {
    std::string label;  ///< one part of the name
    std::uint32_t parent = 0;
    std::vector<std::uint32_t> children = {};
    std::int64_t tensor = -1;  ///< index, for a node that is one (it may have children too)
    std::uint32_t depth = 0;
    bool is_open = false;
    std::uint64_t tensors = 0;  ///< at and below it
    std::uint64_t bytes = 0;
    std::uint64_t different = 0;  ///< tensors below that are known to differ
    double squares = 0;           ///< of the norms that are known
    bool is_module() const { return !children.empty(); }
  };

  explicit TensorTree(std::vector<ViewTensor> tensors);

  /// Nodes that are shown, from top to bottom.
  const std::vector<std::uint32_t>& rows() const { return rows_; }
  const Node& node(std::uint32_t index) const { return nodes_[index]; }
  const std::vector<ViewTensor>& tensors() const { return tensors_; }
  /// For what was found out about one; call note_changes() when all is.
  ViewTensor& tensor(std::size_t index) { return tensors_[index]; }
  /// Adds up again what modules say, and sorts again.
  void note_changes();

  /// "encoder.layer0", without a final dot.
  std::string full_name(std::uint32_t index) const;
  /// Indexes of the tensors at and below a node, in the order of the tree.
  std::vector<std::size_t> tensors_below(std::uint32_t index) const;

  void open(std::uint32_t index);
  void fold(std::uint32_t index);
  void open_all();
  void fold_all();
  /// Siblings by file order, name as people count, size or norm (largest first).
  void sort(ViewOrder order);
  ViewOrder order() const { return order_; }
  /// Only what is known to differ.
  void show_differences(bool only);
  bool shows_differences() const { return only_different_; }

  /// The next node behind (or before) `from` whose name has `text`, whatever the letter case, folded ones too; the
  /// search goes round. It and what is above it are opened. nullopt where there is none.
  std::optional<std::uint32_t> find(std::string_view text, std::uint32_t from, bool backwards = false);
  /// Where a node stands in rows(); of one that is not shown the nearest above.
  std::size_t row_of(std::uint32_t index) const;

 private:
  void add_up();
  void list_rows();
  template <class Visit>
  void walk(std::uint32_t from, const Visit& visit) const;

  std::vector<ViewTensor> tensors_;
  std::vector<Node> nodes_;  ///< 0 is the root, which is not shown; a parent comes before its children
  std::vector<std::uint32_t> rows_;
  ViewOrder order_ = ViewOrder::file;
  bool only_different_ = false;
};

}  // namespace cli
