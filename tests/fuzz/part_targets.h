#pragma once
// Targets for parsers below and beside the formats: archives, JSON, patterns, rules.
// Use: {"zip", run_zip, ...} in targets.cpp.

#include "libcore/base/bytes.h"

namespace fuzz {

void run_zip(core::Bytes bytes);
void run_json(core::Bytes bytes);
/// The first line is a pattern, the rest a key.
void run_keras_config(core::Bytes bytes);
void run_selector(core::Bytes bytes);
/// A list of keys, and a pasted error message.
void run_why_text(core::Bytes bytes);
/// A file of rules, applied to a small model and turned round.
void run_rules(core::Bytes bytes);
/// A PPM or PGM image.
void run_ppm(core::Bytes bytes);
/// A tokenizer.json, used on a small text.
void run_tokenizer(core::Bytes bytes);
/// The width of an element, then the bytes of a chunk; and those bytes as if they were a packed one.
void run_planes(core::Bytes bytes);
void run_floats(core::Bytes bytes);
/// Words foretold, from words that are the bytes; and those bytes as if they were packed so.
void run_predicted(core::Bytes bytes);

}  // namespace fuzz
