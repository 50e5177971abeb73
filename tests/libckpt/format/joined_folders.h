#pragma once
// Golden folders of checkpoints that many processes wrote in parts. Every folder of a set is a case: in/, and
// joined.safetensors with what its parts are together; they are equal to the bit, read from in/ and from each folder
// in it. Use: int main() { return test::run_joined_folders("megatron", "megatron"); }

#include <string>

namespace test {

/// The exit status: 77 without the data. `format`: what every case has to be read as.
int run_joined_folders(const std::string& set, const std::string& format);

}  // namespace test
