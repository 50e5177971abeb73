#pragma once
// Objects in a tree that are neither plain data nor tensors: which classes it names, which of them nobody knows, and
// what a report says of a file when only a part of it is taken. Nothing is looked up or called.
// Thread safety: pure functions. Use: for (const ForeignObject& o : list_foreign_objects(checkpoint.root)) ...

#include <string>
#include <vector>

#include "libckpt/report.h"
#include "libckpt/value.h"

namespace ckpt {

/// Names of the classes and functions that a tree needs: of its objects, of tensors of a class of their own, and of
/// dicts that are neither dict nor OrderedDict. Each once, in file order. Empty for plain data and plain tensors.
std::vector<std::string> list_classes(const Value& root);

/// An object of a class that no table knows, or that holds such an object.
struct ForeignObject {
  std::string name;            ///< dotted, as list_entries() names tensors; "" for the root
  std::string symbol;          ///< the unknown class: "my.project.Net"
  const void* node = nullptr;  ///< Value::identity() of the object
  bool is_tensor = false;      ///< a tensor of a class of its own
  std::string attack;          ///< a name in it that attacks use, such as "torch.hub.load"; "" for none
};

/// The outermost ones, in file order.
std::vector<ForeignObject> list_foreign_objects(const Value& root);

/// Takes out of a report what it says of classes and pickled modules that `part` of the file does not hold.
void narrow_report(Report& report, const Value& part);

/// The warnings of a reader that narrow_report() knows.
std::string unknown_class_text(const std::string& symbol);
std::string weights_only_text(const std::vector<std::string>& symbols);
std::string pickled_module_text(const std::string& symbol);

}  // namespace ckpt
