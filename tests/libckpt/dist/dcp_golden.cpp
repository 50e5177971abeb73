// Golden data set dist/dcp: folders that torch.distributed.checkpoint wrote, with the pieces and the whole tensors.
// Each is read whole, in the pieces of 1 to 5 ranks, and written again by as many ranks as threads. Everything comes
// from the files of the cases. Exits with 77 when the data is absent.
#include <cstdio>

#include "libckpt/ckpt.h"
#include "libckpt/dist/load.h"
#include "libckpt/dist/save.h"
#include "libckpt/format/spread.h"
#include "tests/libckpt/dist/samples.h"
#include "tests/libckpt/dist/thread_ranks.h"
#include "tests/support/golden.h"
#include "tests/support/golden_arrays.h"
#include "tests/support/golden_json.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using test::Json;
using test::member;

constexpr int kMostRanks = 5;

/// A box of an array, taken out by hand.
core::ByteVector box_of(const test::GoldenArray& array, const core::Shape& offsets, const core::Shape& sizes) {
  std::size_t rank = array.shape.size();
  std::size_t width = core::bit_width(array.dtype) / 8;
  core::ByteVector out;
  core::Shape at = offsets;
  std::uint64_t count = core::try_numel(sizes.span()).value();
  for (std::uint64_t n = 0; n < count; ++n) {
    std::size_t element = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      element = element * static_cast<std::size_t>(array.shape[d]) + static_cast<std::size_t>(at[d]);
    }
    auto from = array.bytes.begin() + static_cast<std::ptrdiff_t>(element * width);
    out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(width));
    for (std::size_t d = rank; d-- > 0;) {
      if (++at[d] < offsets[d] + sizes[d]) break;
      at[d] = offsets[d];
    }
  }
  return out;
}

const ckpt::Value* value_at_path(const ckpt::Value& root, Json path) {
  const ckpt::Value* value = &root;
  for (Json step : test::items(path)) {
    if (value == nullptr) return nullptr;
    if (step.is_string()) {
      value = value->find(test::text(step));
    } else {
      auto at = static_cast<std::size_t>(test::integer(step));
      value = value->is(ckpt::Value::Kind::list) && at < value->as_list().size() ? &value->as_list()[at] : nullptr;
    }
  }
  return value;
}

bool same_value(const ckpt::Value& value, Json json) {
  if (json.is_null()) return value.is_null();
  if (json.is_bool()) return value.is(ckpt::Value::Kind::boolean) && value.as_boolean() == test::boolean(json);
  if (json.is_int64()) return value.is(ckpt::Value::Kind::integer) && value.as_integer() == test::integer(json);
  if (json.is_double()) return value.is(ckpt::Value::Kind::real) && value.as_real() == test::number(json);
  if (json.is_string()) return value.is(ckpt::Value::Kind::text) && value.as_text() == test::text(json);
  if (!json.is_array() || !value.is_sequence()) return false;
  std::vector<Json> items = test::items(json);
  if (items.size() != value.as_list().size()) return false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!same_value(value.as_list()[i], items[i])) return false;
  }
  return true;
}

class Case {
 public:
  Case(const fs::path& folder, Json json, const test::GoldenArrays& arrays, test::GoldenRun& run)
      : folder_(folder), json_(json), arrays_(arrays), run_(run), id_(test::text(member(json, "id"))) {}

  void run() {
    ckpt::Checkpoint checkpoint = ckpt::open(folder_);
    check(checkpoint, "read");
    check_chunks(checkpoint);
    check_reshard(checkpoint, "reshard");
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) write_again(checkpoint, ranks);
    write_by_one(checkpoint);
  }

 private:
  std::string id(const std::string& what) const { return id_ + "/" + what; }
  std::vector<std::pair<std::string, Json>> tensors() const {
    std::vector<std::pair<std::string, Json>> list;
    for (auto [name, tensor] : member(json_, "tensors").get_object()) list.emplace_back(std::string(name), tensor);
    return list;
  }

  void check(const ckpt::Checkpoint& checkpoint, const std::string& what) {
    for (const auto& [name, json] : tensors()) {
      const ckpt::Value* found = value_at_path(checkpoint.root, member(json, "path"));
      const test::GoldenArray& whole = arrays_.at(test::text(member(json, "array")));
      bool good = found != nullptr && found->is(ckpt::Value::Kind::tensor) && found->as_entry().dtype == whole.dtype &&
                  found->as_entry().shape == whole.shape && ckpt::read_all(*found->as_entry().bytes) == whole.bytes;
      run_.check(id(what + "/" + name), good, "is not the whole tensor");
    }
    for (auto [name, json] : member(json_, "values").get_object()) {
      const ckpt::Value* found = value_at_path(checkpoint.root, member(json, "path"));
      bool good = found != nullptr && same_value(*found, member(json, "value"));
      run_.check(id(what + "/" + std::string(name)), good, "is another value");
    }
    run_.check(id(what + "/verify"), ckpt::verify(checkpoint.path).damage.empty(), "verify finds damage");
  }

  void check_chunks(const ckpt::Checkpoint& checkpoint) {
    std::optional<ckpt::Spread> spread = ckpt::spread_of(checkpoint);
    for (const auto& [name, json] : tensors()) {
      const ckpt::Value* found = value_at_path(checkpoint.root, member(json, "path"));
      std::vector<Json> wanted = test::items(member(member(json_, "chunks"), name));
      const std::vector<ckpt::SpreadPiece>& pieces = spread->of(found->as_entry());
      bool good = pieces.size() == wanted.size();
      for (std::size_t i = 0; good && i < wanted.size(); ++i) {
        std::vector<Json> box = test::items(wanted[i]);
        good = pieces[i].offsets == test::shape(box[0]) && pieces[i].sizes == test::shape(box[1]);
      }
      run_.check(id("chunks/" + name), good, "has other pieces");
    }
  }

  /// The boxes of Shard(0) on W' ranks, and what lies in them.
  void check_reshard(const ckpt::Checkpoint& checkpoint, const std::string& what) {
    for (auto [name, by_ranks] : member(json_, "reshard").get_object()) {
      Json tensor = member(member(json_, "tensors"), name);
      const test::GoldenArray& whole = arrays_.at(test::text(member(tensor, "array")));
      for (auto [count, boxes] : by_ranks.get_object()) {
        int ranks = std::stoi(std::string(count));
        if (test::is_null(boxes)) continue;  // a number, which has no rows
        for (int rank = 0; rank < ranks; ++rank) {
          std::vector<Json> box = test::items(test::items(boxes)[static_cast<std::size_t>(rank)]);
          ckpt::dist::Piece piece = ckpt::dist::shard(whole.shape, 0, rank, ranks);
          std::string where = std::string(name) + "/" + std::to_string(rank) + "-of-" + std::to_string(ranks);
          run_.check(id(what + "/box/" + where),
                     piece.offset == test::shape(box[0]) && piece.sizes == test::shape(box[1]), "is another box");
          ckpt::Value cut = ckpt::dist::cut_to_pieces(checkpoint.root, {{std::string(name), piece}});
          const ckpt::Value* found = value_at_path(cut, member(tensor, "path"));
          run_.check(id(what + "/" + where),
                     ckpt::read_all(*found->as_entry().bytes) == box_of(whole, piece.offset, piece.sizes),
                     "has other values");
        }
      }
    }
  }

  /// Every tensor that can be cut, in the pieces of so many ranks.
  ckpt::dist::Pieces pieces_of(int rank, int ranks) const {
    ckpt::dist::Pieces pieces;
    for (auto [name, by_ranks] : member(json_, "reshard").get_object()) {
      Json tensor = member(member(json_, "tensors"), name);
      const core::Shape& shape = arrays_.at(test::text(member(tensor, "array"))).shape;
      if (!shape.empty()) pieces.emplace(name, ckpt::dist::shard(shape, 0, rank, ranks));
    }
    return pieces;
  }

  void write_again(const ckpt::Checkpoint& checkpoint, int ranks) {
    test::TempDir dir;
    fs::path path = dir.path() / "again";
    std::string what = "written-by-" + std::to_string(ranks);
    std::vector<std::string> errors = test::run_ranks_as_threads(ranks, [&](ckpt::dist::Ranks& who) {
      ckpt::dist::SaveOptions options;
      options.pieces = pieces_of(who.rank(), ranks);
      options.durable = false;
      ckpt::dist::save_by(who, ckpt::dist::cut_to_pieces(checkpoint.root, options.pieces), path, options);
    });
    run_.check(id(what), errors == std::vector<std::string>(errors.size()), errors[0]);
    ckpt::Checkpoint again = ckpt::open(path);
    check(again, what);
    check_reshard(again, what);
  }

  /// As `ckpt convert --ranks` does it.
  void write_by_one(const ckpt::Checkpoint& checkpoint) {
    test::TempDir dir;
    for (std::uint32_t ranks : {0U, 1U, 3U}) {
      fs::path path = dir.path() / (std::to_string(ranks) + ".dcp");
      ckpt::SaveOptions options;
      options.durable = false;
      options.shards = ranks;
      ckpt::save(checkpoint, path, options);
      check(ckpt::open(path), "saved-for-" + std::to_string(ranks));
    }
  }

  fs::path folder_;
  Json json_;
  const test::GoldenArrays& arrays_;
  test::GoldenRun& run_;
  std::string id_;
};

}  // namespace

int main() {
  std::optional<fs::path> whole = test::golden_file("dist/dcp.safetensors");
  if (!whole) return 77;
  test::GoldenArrays arrays(*whole);
  return test::golden_entries("dist_dcp", "dist/dcp", ".json", [&](test::GoldenRun& run, const fs::path& path) {
    test::GoldenJson json(path);
    Case(path.parent_path() / path.stem(), json.root(), arrays, run).run();
  });
}
