#include "libckpt/analyze/why/attempt.h"

#include <algorithm>
#include <cctype>

#include "libcore/base/load_rules.h"

namespace ckpt::detail {
namespace {

std::uint64_t bytes_of(const core::Shape& shape, core::DType dtype) {
  return core::byte_size(dtype, core::try_numel(shape.span()).value_or(0)).value_or(0);
}

}  // namespace

KeyTable::KeyTable(const KeyList& list) : list_(&list) {
  index_.reserve(list.keys.size());
  for (std::size_t i = 0; i < list.keys.size(); ++i) {
    index_.emplace(list.keys[i].key, i);
    shapes_known_ &= list.keys[i].shape.has_value();
  }
}

std::ptrdiff_t KeyTable::find(std::string_view key) const {
  auto found = index_.find(key);
  return found == index_.end() ? -1 : static_cast<std::ptrdiff_t>(found->second);
}

bool shape_fits(const WantedKey& wanted, const core::Shape& shape) {
  return !wanted.shape || core::load_takes_shape(*wanted.shape, shape);
}

std::string_view parent_of(std::string_view key) {
  std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

std::string_view leaf_of(std::string_view key) {
  return key.substr(key.rfind('.') + 1);  // npos + 1 is 0
}

bool is_counter(std::string_view key) {
  return leaf_of(key) == "num_batches_tracked";
}

bool is_number(std::string_view component) {
  return !component.empty() &&
         std::all_of(component.begin(), component.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

Attempt::Attempt(std::vector<FileKey> file, const KeyTable& wanted)
    : file_(std::move(file)), wanted_(&wanted), pairing_(pair_up(file_)), match_(count(file_, pairing_)) {}

KeyPairing Attempt::pair_up(const std::vector<FileKey>& file) const {
  KeyPairing pairing;
  pairing.file_of_wanted.assign(wanted_->size(), -1);
  pairing.wanted_of_file.assign(file.size(), -1);
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::ptrdiff_t at = wanted_->find(file[i].name);
    if (at < 0 || pairing.file_of_wanted[static_cast<std::size_t>(at)] >= 0) continue;
    pairing.file_of_wanted[static_cast<std::size_t>(at)] = static_cast<std::ptrdiff_t>(i);
    pairing.wanted_of_file[i] = at;
  }
  return pairing;
}

std::uint64_t Attempt::score(const std::vector<FileKey>& file, const KeyPairing& pairing) const {
  std::uint64_t points = 0;
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::ptrdiff_t at = pairing.wanted_of_file[i];
    if (at >= 0) points += shape_fits((*wanted_)[static_cast<std::size_t>(at)], file[i].shape) ? 2 : 1;
  }
  return points;
}

Match Attempt::count(const std::vector<FileKey>& file, const KeyPairing& pairing) const {
  Match match;
  for (std::size_t i = 0; i < wanted_->size(); ++i) {
    const WantedKey& wanted = (*wanted_)[i];
    std::ptrdiff_t at = pairing.file_of_wanted[i];
    if (at < 0 && wanted.optional) continue;
    ++match.wanted;
    const FileKey* key = at < 0 ? nullptr : &file[static_cast<std::size_t>(at)];
    std::uint64_t bytes = 0;
    if (key != nullptr) bytes = bytes_of(key->shape, key->dtype);
    match.bytes_wanted +=
        wanted.shape ? bytes_of(*wanted.shape, key != nullptr ? key->dtype : wanted.dtype.value_or(core::DType::f32))
                     : bytes;
    if (key == nullptr || !shape_fits(wanted, key->shape)) continue;
    ++match.keys;
    match.bytes += bytes;
  }
  return match;
}

bool Attempt::complete() const {
  return match_.keys == match_.wanted && unmatched_file().empty();
}

std::vector<std::size_t> Attempt::unmatched_file() const {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < file_.size(); ++i) {
    if (pairing_.wanted_of_file[i] < 0) left.push_back(i);
  }
  return left;
}

std::vector<std::size_t> Attempt::unmatched_wanted() const {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < wanted_->size(); ++i) {
    if (pairing_.file_of_wanted[i] < 0 && !(*wanted_)[i].optional) left.push_back(i);
  }
  return left;
}

std::vector<std::size_t> Attempt::mismatched() const {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < wanted_->size(); ++i) {
    std::ptrdiff_t at = pairing_.file_of_wanted[i];
    if (at >= 0 && !shape_fits((*wanted_)[i], file_[static_cast<std::size_t>(at)].shape)) left.push_back(i);
  }
  return left;
}

void Attempt::add(Cause cause, std::vector<FixStep> steps, std::vector<FileKey> file) {
  cause.before = match_;
  file_ = std::move(file);
  pairing_ = pair_up(file_);
  match_ = count(file_, pairing_);
  cause.after = match_;
  cause.cured = !steps.empty();
  for (FixStep& step : steps) plan.steps.push_back(std::move(step));
  causes.push_back(std::move(cause));
}

}  // namespace ckpt::detail
