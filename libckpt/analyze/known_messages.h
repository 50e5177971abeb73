#pragma once
// Error messages that name no key: what each means in plain words, and what to do. They are known by a part of their
// text. Thread safety: constants. Use: if (auto* known = ckpt::find_known_message(text)) std::cout << known->cause;

#include <cstdint>
#include <string_view>

namespace ckpt {

struct KnownMessage {
  enum class About : std::uint8_t {
    lfs_pointer,  ///< git-LFS kept a pointer in place of the weights
    web_page,
    packed,   ///< gzip, or another packer
    cut,      ///< the file lost its end
    damaged,  ///< damaged, or not a PyTorch file
    classes,  ///< the pickle names classes that are not there, or not allowed
    place,    ///< the weights lie under another key
    program,  ///< the file may be good: the program uses it in another way than it was meant
    memory,
  };
  std::string_view part;  ///< of the message
  About about;
  std::string_view cause;   ///< one sentence
  std::string_view advice;  ///< FILE stands for the file
};

/// The first of the table that is in `text`, or null. Cost linear in the text.
const KnownMessage* find_known_message(std::string_view text);

}  // namespace ckpt
