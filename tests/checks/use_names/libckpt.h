#pragma once
// What the `Use:` lines of libckpt take as given: files that were opened, and texts that a program has from elsewhere.

#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/ckpt.h"

namespace user {

extern const ckpt::Checkpoint checkpoint, a, b;
extern const ckpt::Value root;  // of a checkpoint
extern const ckpt::Entry entry;
extern const ckpt::SourcePtr source;
extern const ckpt::Diagnosis diagnosis;
extern const ckpt::Checkpoint gguf;
extern const ckpt::KeyList wanted;
extern const std::vector<ckpt::NamedShape> keys;
extern const ckpt::RulePack pack;

extern const std::string path;
extern const std::string text;  // of a message, a list of keys, a file of rules
extern const core::Bytes bytes;
extern const core::MutableBytes buffer;
extern std::ofstream file;
extern ckpt::Report report;

}  // namespace user
