#pragma once
// The diagnosis corpus: broken checkpoints as people met them, each with the thread it comes from, the cause that has
// to be found first, and what the fix has to make of it. Use: for (const Case& c : all_cases()) run(c);

#include <functional>
#include <string>
#include <vector>

#include "libckpt/analyze/why.h"
#include "tests/libckpt/analyze/why/model.h"

namespace test {

/// One broken file and what it was meant for.
struct Broken {
  ckpt::Value root = {};
  std::string raw = {};            ///< bytes of the file instead of `root`
  std::string extension = ".pth";  ///< decides the format
  Parts truth = {};                ///< what the model is to be loaded with
  bool has_target = true;          ///< truth is given as --for
  std::vector<std::vector<std::string>> ties = {};
  bool names_only = false;  ///< the target has names without shapes
  std::string error = {};
  std::int64_t devices = 0;
  std::size_t cut = 0;  ///< the file loses its end: this many percent are kept; 0 = all
  std::string at = {};
};

enum class Outcome : std::uint8_t {
  loads,   ///< after the fix every key is there with its shape and its values, and nothing else
  rest,    ///< the same for all but what cannot be had (a head of another size)
  plain,   ///< there is no target; the fixed file has no cause left
  advice,  ///< no edit helps: the command or the advice says what does
};

struct Case {
  std::string id;
  std::string thread;  ///< where somebody met it
  ckpt::CauseKind first;
  Outcome outcome;
  std::string says;  ///< must be in the command, the advice or the text of the cause; "" = anything
  std::function<Broken()> make;
  std::vector<ckpt::CauseKind> also = {};  ///< further causes that must be named
};

std::vector<Case> wrapper_cases();
std::vector<Case> name_cases();
std::vector<Case> shape_cases();
std::vector<Case> tree_cases();
std::vector<Case> file_cases();
std::vector<Case> error_cases();
std::vector<Case> all_cases();

}  // namespace test
