#pragma once
// Makes zip archives by hand, with any lie that a test needs. Thread safety: pure functions.
// Use: test::ZipSpec zip; zip.add("x/data.pkl", pickle); zip.flags = 1; std::string bytes = zip.bytes();

#include <string>
#include <vector>

#include "libckpt/io/checksum.h"
#include "tests/libckpt/format/pickle_maker.h"

namespace test {

struct ZipSpecMember {
  std::string name;
  std::string content;
  std::string local_name = {};  ///< "" = as `name`
  std::uint16_t flags = 0;      ///< in both headers
  std::uint32_t crc_xor = 0;    ///< changes the recorded checksum
  std::string deflated = {};    ///< stored in place of `content`, "" = as it is
  std::string extra = {};       ///< extra fields of the local header
};

struct ZipSpec {
  std::vector<ZipSpecMember> members = {};
  bool reversed_directory = false;  ///< lists the members from the last to the first

  ZipSpecMember& add(const std::string& name, const std::string& content) {
    members.push_back({name, content});
    return members.back();
  }
  std::string bytes() const {
    std::string out;
    std::string directory;
    for (const ZipSpecMember& m : members) {
      std::uint32_t crc = ckpt::crc32(core::as_bytes(m.content)) ^ m.crc_xor;
      auto size = static_cast<std::uint32_t>(m.content.size());
      std::string local_name = m.local_name.empty() ? m.name : m.local_name;
      std::uint16_t method = m.deflated.empty() ? 0 : 8;
      const std::string& stored = m.deflated.empty() ? m.content : m.deflated;
      std::string common = raw(m.flags) + raw(method) + raw(std::uint32_t{0}) + raw(crc) +
                           raw(static_cast<std::uint32_t>(stored.size())) + raw(size);
      std::string entry = "PK\x01\x02" + raw(std::uint32_t{0}) + common +
                          raw(static_cast<std::uint16_t>(m.name.size())) + std::string(12, '\0') +
                          raw(static_cast<std::uint32_t>(out.size())) + m.name;
      directory = reversed_directory ? entry + directory : directory + entry;
      out += "PK\x03\x04" + raw(std::uint16_t{0}) + common + raw(static_cast<std::uint16_t>(local_name.size())) +
             raw(static_cast<std::uint16_t>(m.extra.size())) + local_name + m.extra + stored;
    }
    auto count = static_cast<std::uint16_t>(members.size());
    return out + directory + "PK\x05\x06" + raw(std::uint32_t{0}) + raw(count) + raw(count) +
           raw(static_cast<std::uint32_t>(directory.size())) + raw(static_cast<std::uint32_t>(out.size())) +
           raw(std::uint16_t{0});
  }
};

/// What torch.save writes around a pickle and storages "0", "1", ...
inline ZipSpec torch_zip(const std::string& object_pickle, const std::vector<std::string>& storages = {}) {
  ZipSpec zip;
  zip.add("x/data.pkl", object_pickle);
  for (std::size_t i = 0; i < storages.size(); ++i) zip.add("x/data/" + std::to_string(i), storages[i]);
  zip.add("x/version", "3\n");
  return zip;
}

}  // namespace test
