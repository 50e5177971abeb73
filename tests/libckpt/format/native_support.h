#pragma once
// Small checkpoints for the tests of the native format, deep comparison, and a way to damage files on purpose.
// Use: save(sample_checkpoint(), path); EXPECT_EQ(difference(open(path).root, sample_checkpoint().root), "");

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/open_save.h"

namespace test {

/// `count` bytes that repeat nothing soon: byte i depends on i and on `seed`.
core::ByteVector noise(std::size_t count, unsigned seed = 1);

std::shared_ptr<ckpt::Entry> entry(core::DType dtype, const core::Shape& shape, core::ByteVector bytes);
/// A tensor over noise.
ckpt::Value tensor(core::DType dtype, const core::Shape& shape, unsigned seed = 1);
/// A tensor that looks into `storage`.
ckpt::Value view(const std::shared_ptr<const ckpt::Storage>& storage, core::DType dtype, const core::Shape& shape,
                 std::int64_t offset, const core::Shape& strides);
std::shared_ptr<const ckpt::Storage> storage(core::DType dtype, core::ByteVector bytes, std::string location = "cpu");

using Items = std::vector<std::pair<std::string, ckpt::Value>>;
ckpt::Value dict(const Items& items);
ckpt::Checkpoint checkpoint(const Items& items);
/// Two float tensors: small enough to try every byte of its file.
ckpt::Checkpoint small_checkpoint();
/// A training file in miniature: every kind of value, nested.
ckpt::Checkpoint sample_checkpoint();

/// "" when both trees are equal down to the bytes and views of tensors, else what differs and where. Sharing between
/// places is not compared.
std::string difference(const ckpt::Value& a, const ckpt::Value& b, const std::string& where = "root");

/// Puts other bytes at `offset`.
void overwrite(const std::filesystem::path& file, std::uint64_t offset, std::string_view bytes);
/// Changes the index of a native file in place and makes its checksums right again. REQUIRES: it stays in the user
/// block.
void edit_index(const std::filesystem::path& file, const std::function<void(core::ByteVector&)>& change);
/// Code and message of the error that `body` ends with: "corrupt: the file is cut", or "" when there is none.
std::string error_of(const std::function<void()>& body);

}  // namespace test
