#include "tools/ckpt/input.h"

#include <algorithm>

#include "libckpt/io/checksum.h"
#include "libckpt/open_save.h"
#include "libcore/base/text.h"

namespace cli {
namespace {

bool fails_alike(const ckpt::Entry& entry, const core::Error& error) {
  if (entry.bytes == nullptr) return false;
  try {
    ckpt::for_each_part(*entry.bytes, [](core::Bytes) {});
  } catch (const core::Error& again) {
    return again.message() == error.message();
  }
  return false;
}

}  // namespace

Input open_input(const ReadOptions& options, const std::string& file) {
  Input input;
  input.address = parse_address(file);
  input.checkpoint = ckpt::open(input.address.path, options.open(input.report));
  ckpt::Value place = core::with_context(input.address.shown(),
                                         [&] { return ckpt::value_at(input.checkpoint.root, input.address.at); });
  input.checkpoint.root = std::move(place);
  say_report(options, input.address.path, input.report);
  return input;
}

void name_input_at_fault(core::Error& error, std::initializer_list<const Input*> inputs) {
  const std::vector<std::string> subjects = error.context();
  for (const Input* input : inputs) {
    for (const ckpt::NamedEntry& named : ckpt::list_entries(input->checkpoint.root)) {
      if (std::find(subjects.begin(), subjects.end(), core::quote(named.name)) == subjects.end()) continue;
      if (!fails_alike(*named.entry, error)) continue;
      error.add_context(input->address.path.string());
      return;
    }
  }
}

}  // namespace cli
