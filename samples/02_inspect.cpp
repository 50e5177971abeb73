// What is in a checkpoint, without reading a tensor: format, names, types, shapes, plain values.
// usage: sample_inspect FILE
#include <cstdio>
#include <iostream>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: sample_inspect FILE\n");
    return 2;
  }
  try {
    ckpt::Checkpoint checkpoint = ckpt::open(argv[1]);  // found by content, whatever the name
    std::cout << checkpoint.format << '\n';
    for (const ckpt::NamedEntry& tensor : ckpt::list_entries(checkpoint.root)) {
      std::cout << tensor.name << ' ' << core::name(tensor.entry->dtype) << ' ' << core::to_list(tensor.entry->shape)
                << " on " << tensor.entry->location << '\n';
    }
    for (const ckpt::NamedValue& value : ckpt::list_plain_values(checkpoint.root)) {
      std::cout << value.name << " = " << ckpt::value_text(value.value) << '\n';
    }
    const ckpt::Branch whole = ckpt::branches(checkpoint.root).front();
    std::cout << whole.tensors << " tensors, " << whole.elements << " elements, " << whole.bytes << " bytes\n";
  } catch (const core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
