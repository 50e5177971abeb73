#pragma once
// One line of Python that loads the weights of a file, whatever its format: by the reader that Python has for it, or
// from what a command made of it.
// Thread safety: one owner. Use: PythonLine line(diagnosis); std::string text = line.direct({}).value_or("");

#include <optional>
#include <string>
#include <string_view>

#include "libckpt/analyze/why.h"
#include "libckpt/format/format.h"

namespace ckpt::detail {

/// What reads files of this format in Python; none for a name that is no format's.
PythonReader reader_in_python(std::string_view format);

class PythonLine {
 public:
  explicit PythonLine(const Diagnosis& diagnosis) : diagnosis_(diagnosis) {}

  /// Tensors of devices that are not there go to the CPU.
  void to_cpu() { cpu_ = true; }

  struct Change {
    std::string place = {};  ///< "['model']"
    std::string names = {};  ///< a comprehension over `sd`, "" where the names stay
    bool regex = false;      ///< it uses `re`
  };
  /// Loads the file as it lies there. Nothing where no call reads it, or not without what the file says beside.
  std::optional<std::string> direct(const Change& change) const;

  /// Loads the PyTorch or safetensors file that the command above it makes; "" where it makes another.
  std::string after(const std::string& made, const std::string& place) const;

 private:
  struct Read {
    std::string imports;     ///< "safetensors.torch", "" for torch alone
    std::string expression;  ///< a dict of tensors
  };
  std::optional<Read> read() const;
  std::optional<Read> read_hdf5() const;
  std::optional<std::string> with_ties(const Read& read) const;
  bool has(CauseKind kind) const;
  bool writes_torch() const;

  const Diagnosis& diagnosis_;
  bool cpu_ = false;
};

}  // namespace ckpt::detail
